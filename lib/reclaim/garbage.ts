import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options?: { type: 'minor' }) => void;

/** In a row they fail only where there is no collector to be had. */
const MOST_ATTEMPTS = 20;

function findCollect(): Collect | undefined {
  if (typeof globalThis.gc === 'function') {
    return globalThis.gc as Collect;
  }
  // V8 installs `gc` in every context made while the flag is set, whatever the command line said. The
  // flag is the process's: another Worker that does the same may take it back too early.
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    setFlagsFromString('--expose-gc');
    try {
      const collect: unknown = runInNewContext('typeof gc === "function" ? gc : undefined');
      if (typeof collect === 'function') {
        return collect as Collect;
      }
    } finally {
      setFlagsFromString('--no-expose-gc');
    }
  }
  return undefined;
}

let collect: Collect | undefined;

/**
 * One major garbage collection, on this thread; the memory of dropped Buffers has been freed when it
 * returns. Works without `--expose-gc`; the first call finds the function. Finalizers run later, in
 * a turn of the event loop.
 *
 * @throws Error where V8 gives no access to its collector
 */
export function collectGarbage(): void {
  collect ??= findCollect();
  if (collect === undefined) {
    throw new Error('V8 gives no access to its garbage collector here');
  }
  // Without arguments: Node 20 takes any object, `{ type: 'major' }` too, for a minor collection.
  collect();
  // V8 frees the memory of Buffers on another thread, up to tens of milliseconds after the
  // collection that found them. The next collection, however small, waits for that.
  collect({ type: 'minor' });
}

/**
 * A minor collection: finds what was dropped lately, in a few milliseconds, and frees its memory.
 *
 * @throws Error where V8 gives no access to its collector
 */
export function collectYoungGarbage(): void {
  collect ??= findCollect();
  collect?.({ type: 'minor' });
}
