/**
 * The watchdog: a native thread that sums what is in use at every tick, whether or not the event
 * loop is blocked. It runs while somebody holds it.
 */
import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { containerReader } from './live';
import { countingBinding, startCounting } from './start';

/** What the watchdog has seen. Sizes in bytes. */
export interface WatchdogReading {
  ticks: number;
  /** At the last tick. */
  live: number;
  /** The highest tick since the watchdog was started. */
  peakLive: number;
  /** Live plus the published V8 heaps, at the last tick. */
  usage: number;
  peakUsage: number;
  /** Sampled every second. */
  rss: number;
  rssAnon: number;
  /** Sampled every second, at every tick near the container's limit; 0 outside a container. */
  containerAnon: number;
  /** How often a watched threshold was passed. */
  crossings: number;
  /** When the last one was noticed, ms on the clock of `process.hrtime()`; 0 when none was. */
  lastCrossingAt: number;
  /** Time spent in all ticks together, ms. */
  busyMs: number;
}

export interface WatchdogOptions {
  /** Time between two ticks, ms, 1 to 10,000; default 10. While several hold it the shortest wins. */
  tickMs?: number;
}

const NOT_HELD = -1;
const fields = new Float64Array(11);

/** One hold on the watchdog. */
export class Watchdog {
  #ends = new Set<() => void>();
  #hold: number;

  /**
   * Starts counting and the watchdog.
   *
   * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for a tick that is none
   */
  constructor({ tickMs = 10 }: WatchdogOptions = {}) {
    if (!Number.isInteger(tickMs) || tickMs < 1 || tickMs > 10_000) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'tickMs',
        tickMs,
        'a whole number of milliseconds from 1 to 10000',
      );
    }
    startCounting();
    const binding = countingBinding();
    const container = containerReader().statFile();
    if (container !== undefined) {
      binding?.watchContainer(container.file, container.name, container.limit ?? 0);
    }
    this.#hold = binding?.watchdogAcquire(tickMs) ?? NOT_HELD;
  }

  /** False where counting is not available, and after `close()`. */
  get running(): boolean {
    return this.#hold !== NOT_HELD;
  }

  /** What it has seen; all zero while it does not run. */
  read(): WatchdogReading {
    fields.fill(0);
    if (this.running) countingBinding()?.readWatchdog(fields);
    const at = (index: number) => fields[index] as number;
    return {
      ticks: at(0),
      live: at(1),
      peakLive: at(2),
      usage: at(3),
      peakUsage: at(4),
      rss: at(5),
      rssAnon: at(6),
      containerAnon: at(7),
      crossings: at(8),
      lastCrossingAt: at(9) / 1e6,
      busyMs: at(10) / 1e6,
    };
  }

  /**
   * Calls back, on this isolate's event loop, each time usage passes `bytes` upwards. The watchdog
   * notices within a tick; the call waits for the event loop, which it does not keep alive.
   *
   * @throws ArgumentRangeError or ArgumentTypeError for bytes or a callback that is none
   * @returns what ends the watch; `undefined` when the watchdog does not run or watches 32 already
   */
  onCrossing(bytes: number, callback: (usage: number) => void): (() => void) | undefined {
    if (typeof bytes !== 'number' || !(bytes >= 0)) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_SIZE',
        'bytes',
        bytes,
        'a number of bytes, not negative',
      );
    }
    if (typeof callback !== 'function') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'callback',
        callback,
        'a function',
      );
    }
    if (!this.running) return undefined;
    const unwatch = countingBinding()?.watchThreshold(bytes, (usage) => {
      try {
        callback(usage);
      } catch (error) {
        // Native code has nobody to throw to: an uncaught exception, as from a timer.
        queueMicrotask(() => {
          throw error;
        });
      }
    });
    if (unwatch === undefined) return undefined;
    const end = () => {
      if (this.#ends.delete(end)) unwatch();
    };
    this.#ends.add(end);
    return end;
  }

  /** Lets go; the thread ends when nobody holds it. Idempotent. */
  close(): void {
    for (const end of [...this.#ends]) end();
    if (this.running) countingBinding()?.watchdogRelease(this.#hold);
    this.#hold = NOT_HELD;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The peaks that a running watchdog keeps, whoever holds it. */
export function readPeak(): { live: number; usage: number } | undefined {
  fields.fill(0);
  countingBinding()?.readWatchdog(fields);
  const [ticks = 0, , live = 0, , usage = 0] = fields;
  return ticks > 0 ? { live, usage } : undefined;
}
