/** Switches counting on, process-wide and once, and keeps up with modules that JavaScript loads. */
import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { loadNative, type NativeBinding } from '../native';
import { type Coverage, readCoverage } from './coverage';
import { usedHeap } from './heap';
import { watchModules } from './modules';

/** How often an isolate publishes its used heap for the others to see, ms. */
const PUBLISH_INTERVAL_MS = 50;

/** Set to anything but `0` or nothing: no import slot of the process is written. */
const NO_PATCHING = 'OOM_GUARD_NO_PATCHING';

/** In the order of the native JemallocChoice. */
const JEMALLOC_CHOICES = ['auto', 'callsites', 'hooks', 'stats'] as const;

export interface StartOptions {
  /**
   * How a jemalloc is counted. `'auto'` (the default): a preloaded one at its call sites, one inside
   * a module by its hooks. Where the chosen way does not work, the next one is taken, and the
   * coverage says which. `'stats'` samples its statistics every 100 ms.
   */
  jemalloc?: (typeof JEMALLOC_CHOICES)[number];
}

let startedHere = false;

/**
 * Starts counting every byte that the allocators of this process hand out. Process-wide and
 * idempotent: later calls, other Workers and other copies of the package join what is running (the
 * options of the first call stand), and counting goes on until the process ends. Where the addon
 * cannot be loaded, the returned coverage says why.
 *
 * With `OOM_GUARD_NO_PATCHING=1` in the environment no import slot is written; only allocators that
 * count by other means are then counted.
 */
export function startCounting(options: StartOptions = {}): Coverage {
  const unknown =
    typeof options === 'object' && options !== null
      ? Object.keys(options).filter((key) => key !== 'jemalloc')
      : [options];
  if (unknown.length > 0) {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'options',
      unknown[0],
      "an object with 'jemalloc' or nothing in it",
    );
  }
  const { jemalloc = 'auto' } = options;
  const choice = JEMALLOC_CHOICES.indexOf(jemalloc);
  if (choice < 0) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'jemalloc',
      jemalloc,
      `one of '${JEMALLOC_CHOICES.join("', '")}'`,
    );
  }
  const native = loadNative();
  if (native.available && !startedHere) {
    const noPatching = process.env[NO_PATCHING] ?? '';
    native.binding.start(noPatching === '' || noPatching === '0', choice);
    if (native.binding.started()) {
      startedHere = true;
      watchModules(native.binding);
      publishHeap(native.binding);
    }
  }
  return readCoverage();
}

/** Whether this process counts, whichever isolate started it. */
export function isCounting(): boolean {
  return countingBinding() !== undefined;
}

let counting: NativeBinding | undefined;

/** The binding once the process counts. */
export function countingBinding(): NativeBinding | undefined {
  if (counting === undefined) {
    const native = loadNative();
    if (native.available && native.binding.started()) counting = native.binding;
  }
  return counting;
}

/** Other isolates cannot read this heap; a timer that does not keep the loop alive tells them. */
function publishHeap(binding: NativeBinding): void {
  const publish = () => {
    binding.usage(usedHeap());
  };
  publish();
  setInterval(publish, PUBLISH_INTERVAL_MS).unref();
}
