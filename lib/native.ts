/**
 * The typed boundary to the addon: loads it on first use, or says why it cannot be loaded.
 * Loading it changes nothing in the process; only `start()` does.
 */
import path from 'node:path';
import nodeGypBuild from 'node-gyp-build';

/**
 * How an allocator is counted: at its callers' import slots, by jemalloc's own hooks, by sampling its
 * statistics, by the resident anonymous pages of the image it hides in, or not at all.
 */
export type Mechanism = 'callsites' | 'hooks' | 'stats' | 'pages' | 'none';

/** One heap of this process as the addon reports it. All sizes in bytes. */
export interface NativeAllocator {
  id: number;
  /** Such as `malloc (glibc)` or `jemalloc (duckdb_je_)`. */
  name: string;
  /** Path of the image that provides it; empty for the executable itself. */
  owner: string;
  mechanism: Mechanism;
  /** In use when counting began. */
  baseline: number;
  /** False when the allocator could not tell what was in use at start (the baseline is then 0). */
  baselineKnown: boolean;
  /** Handed out since counting began, monotonic. */
  allocated: number;
  /** Given back since counting began, monotonic. */
  freed: number;
  /** baseline + allocated − freed, not clamped. */
  live: number;
  /** Why the mechanism is what it is, or what is missing; empty when nothing is to be said. */
  note: string;
}

/** One import slot that was left as it was, and why. */
export interface NativeSkippedSlot {
  name: string;
  reason: string;
}

/** One loaded image as the patcher saw it. */
export interface NativeImage {
  /** Empty for the executable. */
  path: string;
  /** Slots that lead to the counting wrappers. */
  patched: number;
  skipped: NativeSkippedSlot[];
  note: string;
}

/** What a jemalloc says of itself, bytes. */
export interface JemallocStatistics {
  /** Of its pages, how many may be resident: those never written to are in here too. */
  resident: number;
  /** Mapped and in use, for data and its own tables. */
  mapped: number;
  /** Mapped and kept, though unused. */
  retained: number;
}

export interface NativeBinding {
  /**
   * Starts counting in this process; idempotent. `patch: false` writes no import slot. `jemalloc`:
   * 0 auto, 1 call sites, 2 hooks, 3 statistics.
   */
  start(patch: boolean, jemalloc: number): void;
  /** Whether this process counts. */
  started(): boolean;
  /** Looks for images loaded since the last time; waits for loads that are going on. */
  rescan(): void;
  /** The same for who is about to read: never waits long for somebody else's load. */
  catchUp(): void;
  /** Live bytes, not clamped: below zero when more was freed than was seen allocated. */
  live(): number;
  /** Publishes the caller's used heap; returns live bytes plus every published heap. */
  usage(usedHeap: number): number;
  /** How many isolates publish their heap. */
  heapCount(): number;
  allocators(): NativeAllocator[];
  /** What an allocator's own statistics say is in use; takes its locks. */
  inUse(allocator: number): number | undefined;
  /**
   * Bytes allocated between two samples of an allocator's heap profiler; `undefined` when none is on.
   */
  profiles(allocator: number): number | undefined;
  /** What is not counted and has no allocator or image to say it of. */
  gaps(): { what: string; reason: string }[];
  /**
   * Process-wide: a module allocated so many bytes while it was loaded, before its slots were written.
   */
  uncountedAdd(path: string, bytes: number): void;
  /** Over all loads of all isolates. */
  uncountedTotal(): number;
  /** Those worth mentioning, in order of loading. */
  uncountedLoads(): { path: string; bytes: number }[];
  /**
   * What the jemalloc whose functions begin with `prefix` says of itself, bytes; `image` is the path
   * of the image that has it. Takes its locks.
   */
  jemallocStatistics(image: string, prefix: string): JemallocStatistics | undefined;
  /** Where the counting engine's own tables lie; absent in an older engine. */
  ownMemory?(): { start: number; end: number }[];
  /** Fills `[allocated, freed]` for each shard: `2 * shardCount` numbers. */
  shards(out: Float64Array): void;
  images(): NativeImage[];
  /** Changes when `images()` may tell something new. */
  generation(): number;
  /** Fills total, anon, file, shared; false where the OS does not tell. */
  rss(out: Float64Array): boolean;
  /** Holds the watchdog, which runs while somebody does; the shortest tick wins. -1: it cannot run. */
  watchdogAcquire(tickMs: number): number;
  watchdogRelease(hold: number): void;
  /** Calls back when usage passes `bytes`; returns what ends it, `undefined` when none is free. */
  watchThreshold(bytes: number, callback: (usage: number) => void): (() => void) | undefined;
  /** Where the watchdog reads the container's anonymous bytes: a "name number" line of a file. */
  watchContainer(file: string, name: string, limit: number): void;
  /**
   * Fills ticks, live, peak live, usage, peak usage, RSS, anonymous RSS, the container's anonymous
   * bytes, crossings, when the last was noticed (CLOCK_MONOTONIC, ns), and the time spent in ticks (ns).
   */
  readWatchdog(out: Float64Array): void;
  /**
   * Takes a slot for a pool of this isolate, `key` shared by those that share their reserved total;
   * -1 when all are taken. The first array that is passed is the mailbox of all the calls below (see
   * lib/pool/process-ledger.ts): they take their numbers from it and leave their answers in it. Absent
   * in an older engine, like the rest of them.
   */
  reservationsAcquire?(mailbox: Float64Array, key: string, ageMs: number): number;
  reservationsBook?(): void;
  reservationsGiveBack?(): void;
  reservationsRetire?(): void;
  reservationsRead?(): void;
  /**
   * Benchmarks only: patched slots lead to 0 the counters, 1 the originals (and hooks are taken out), 2
   * usable-size counters.
   */
  retarget(target: number): void;
  /** Trims glibc and purges every jemalloc, off the calling thread. */
  releaseFreeMemory(): Promise<void>;
  readonly pageSize: number;
  readonly shardCount: number;
}

export type NativeLoad =
  | { available: true; binding: NativeBinding }
  | { available: false; reason: string };

let loaded: NativeLoad | undefined;

/** Loads the addon once per isolate. Never throws. */
export function loadNative(): NativeLoad {
  loaded ??= load();
  return loaded;
}

function load(): NativeLoad {
  try {
    const binding = nodeGypBuild(path.join(__dirname, '..')) as NativeBinding;
    if (typeof binding.start !== 'function') throw new Error('the file has no counting engine');
    return { available: true, binding };
  } catch (error) {
    const cause = error instanceof Error ? error.message.split('\n')[0] : String(error);
    return {
      available: false,
      reason:
        `the addon could not be loaded on ${process.platform}-${process.arch}: ${cause}. ` +
        'Native memory is not counted. With Python 3 and a C++ compiler it can be built: ' +
        '`npx node-gyp rebuild --directory node_modules/oom-guard`.',
    };
  }
}
