/**
 * Modules that JavaScript loads. What their constructors and their initialisation allocate comes
 * before their import slots can be written, so it is not booked; here it is measured.
 */
import type { NativeBinding } from '../native';

/** What a module allocated uncounted while it was being loaded. */
export interface UncountedLoad {
  path: string;
  /** Bytes, as far as the allocator's statistics tell: other threads' caches blur it by some KiB. */
  bytes: number;
}

/** Less than this is noise: thread caches, a new arena's header. */
const NOISE = 8192;

const loads: UncountedLoad[] = [];

/** What was found so far, in order of loading. */
export function uncountedLoads(): readonly UncountedLoad[] {
  return loads;
}

/** Looks for new images after each load, and measures what the load itself allocated. */
export function watchModules(binding: NativeBinding): void {
  const load = process.dlopen;
  process.dlopen = function dlopen(this: unknown, ...args: unknown[]) {
    const before = uncounted(binding);
    try {
      return Reflect.apply(load, process, args);
    } finally {
      // Also after an error: the library may have been mapped before its module failed.
      binding.rescan();
      const bytes = uncounted(binding) - before;
      if (bytes > NOISE) loads.push({ path: String(args[1]), bytes });
    }
  } as typeof process.dlopen;
}

/** What the process malloc holds beyond what is booked, bytes; 0 where it has no statistics. */
function uncounted(binding: NativeBinding): number {
  const inUse = binding.inUse(0);
  return inUse === undefined ? 0 : inUse - (binding.allocators()[0]?.live ?? inUse);
}
