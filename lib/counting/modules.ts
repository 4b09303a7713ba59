/**
 * Modules that JavaScript loads. What their constructors and their initialisation allocate comes
 * before their import slots can be written, so it is not booked; here it is measured.
 */
import type { NativeBinding } from '../native';

/** What a module allocated uncounted while it was being loaded. */
export interface UncountedLoad {
  path: string;
  /**
   * Bytes by which the statistics of the process malloc grew beyond what was booked. An estimate:
   * the two are read one after the other, so what other threads allocate or free in those
   * microseconds, and the chunks that their caches take or give back during the load, are in it, in
   * either direction. Loads of less than 8 KiB are not listed.
   */
  bytes: number;
}

/** Looks for new images after each load, and measures what the load itself allocated. */
export function watchModules(binding: NativeBinding): void {
  const load = process.dlopen;
  process.dlopen = function dlopen(this: unknown, ...args: unknown[]) {
    const before = unexplained(binding);
    try {
      return Reflect.apply(load, process, args);
    } finally {
      // Also after an error: the library may have been mapped before its module failed.
      binding.rescan();
      binding.uncountedAdd(String(args[1]), unexplained(binding) - before);
    }
  } as typeof process.dlopen;
}

/**
 * What the process malloc holds beyond what is booked and beyond what loads were found to have taken
 * so far: one inside this one, or in another thread, has accounted for itself. Bytes; 0 where it has
 * no statistics.
 */
function unexplained(binding: NativeBinding): number {
  const live = () => binding.allocators()[0]?.live ?? 0;
  const before = live();
  const inUse = binding.inUse(0);
  if (inUse === undefined) return 0;
  // What other threads do meanwhile lies about evenly on both sides.
  return inUse - (before + live()) / 2 - binding.uncountedTotal();
}
