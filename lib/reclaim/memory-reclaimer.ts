import { setTimeout as sleep } from 'node:timers/promises';
import type { Readings } from '../counting/readings';
import type { Reclaimer, ReclaimOptions } from '../pool/reclaimer';
import { runForRoom } from '../pool/spill';
import { collectGarbage } from './garbage';
import { LimitedRun } from './limited-run';

const DEFAULT_SLACK_INTERVAL_MS = 100;
const DEFAULT_GARBAGE_INTERVAL_MS = 250;
/** Less growth than this is not worth a collection before its time. */
const GROWTH_MIN = 8 * 2 ** 20;

/** What one reclaim did. Sizes in bytes, as measured just before and after it. */
export interface ReclaimReport {
  readonly kind: 'cache' | 'slack' | 'garbage';
  /** Nothing was done because the last run is too recent. */
  readonly suppressed: boolean;
  readonly liveBefore: number;
  readonly liveAfter: number;
  /** What the kernel charges to this process as anonymous. */
  readonly anonBefore: number;
  readonly anonAfter: number;
  /** How long it took. */
  readonly ms: number;
  /** What it failed with; a reclaim that fails has simply given nothing back. */
  readonly error: unknown;
}

/** For how long a cache that is being emptied is waited for, ms. It may go on afterwards. */
const CACHE_MS = 1000;

async function withinTime(empty: CacheReclaim): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it takes more than ${CACHE_MS} ms`)), CACHE_MS);
    timer.unref();
  });
  try {
    await Promise.race([empty(), late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Empties a cache, or some of it. It may be asynchronous, for up to a second. Like a spill callback it
 * gets what it asks a pool for at once or not at all.
 */
export type CacheReclaim = () => unknown;

/** Options of {@link MemoryReclaimer}. */
export interface MemoryReclaimerOptions {
  /** Gives freed memory back to the kernel, off this thread. */
  trim: () => Promise<unknown>;
  /** A major collection of this isolate. Default {@link collectGarbage}. */
  gc?: (() => void) | undefined;
  readings: Pick<Readings, 'live' | 'rss' | 'heap'>;
  /** Milliseconds, monotonic; the same clock as the pool's. Default `performance.now`. */
  clock?: (() => number) | undefined;
  /** Waits for a turn of the event loop, after which finalizers have run. */
  setTurn?: (() => Promise<unknown>) | undefined;
  /** Waits, ms. Default a timer. */
  delay?: ((ms: number) => Promise<unknown>) | undefined;
  /** How long slack is left alone after it was released, ms. Default 100. */
  slackIntervalMs?: number | undefined;
  /** How long garbage is left alone after a collection, ms. Default 250. */
  garbageIntervalMs?: number | undefined;
  /** Told of every run; not of those suppressed. Must not throw. */
  onReport?: ((report: ReclaimReport) => void) | undefined;
}

/**
 * Gives back memory that nobody uses: slack to the kernel, garbage to the allocators, and with it what
 * caches hold. Each at most once in an interval (garbage sooner when enough has been allocated since),
 * by one at a time, shared by all who ask while it runs, and measured. Never rejects: what went wrong
 * is in the report.
 */
export class MemoryReclaimer implements Reclaimer {
  readonly #readings: Pick<Readings, 'live' | 'rss' | 'heap'>;
  readonly #clock: () => number;
  readonly #onReport: ((report: ReclaimReport) => void) | undefined;
  readonly #slack: LimitedRun<ReclaimReport>;
  readonly #garbage: LimitedRun<ReclaimReport>;
  readonly #caches = new Set<CacheReclaim>();
  #liveAfterGarbage = 0;
  #heapAfterGarbage = 0;

  constructor(options: MemoryReclaimerOptions) {
    const clock = options.clock ?? (() => performance.now());
    const delay = options.delay ?? sleep;
    const gc = options.gc ?? collectGarbage;
    const setTurn =
      options.setTurn ?? (() => new Promise<void>((resolve) => setImmediate(resolve)));
    this.#readings = options.readings;
    this.#clock = clock;
    this.#onReport = options.onReport;
    this.#slack = new LimitedRun({
      intervalMs: options.slackIntervalMs ?? DEFAULT_SLACK_INTERVAL_MS,
      clock,
      delay,
      run: () => this.#measured('slack', options.trim),
      suppressed: () => this.#suppressed('slack'),
    });
    this.#garbage = new LimitedRun({
      intervalMs: options.garbageIntervalMs ?? DEFAULT_GARBAGE_INTERVAL_MS,
      clock,
      delay,
      run: async () => {
        // Before the collection: what they let go may be garbage.
        if (this.#caches.size > 0) await this.#measured('cache', () => this.#emptyCaches());
        return this.#measured('garbage', async () => {
          gc();
          await setTurn();
          this.#liveAfterGarbage = this.#readings.live();
          this.#heapAfterGarbage = this.#readings.heap().used;
        });
      },
      // Garbage can only be among what has come since, unless somebody let go of older things; for
      // those there is the interval. The size of the heap says nothing: a few bytes there can hold
      // any amount of native memory.
      worthWhile: (needed) => this.#grown() >= Math.max(needed, GROWTH_MIN),
      suppressed: () => this.#suppressed('garbage'),
    });
  }

  /** Has `empty` called before garbage is collected, until the function that is returned is called. */
  addCache(empty: CacheReclaim): () => void {
    // One of its own for every registration, so that one function can be registered twice.
    const entry = () => empty();
    this.#caches.add(entry);
    return () => {
      this.#caches.delete(entry);
    };
  }

  /** Makes the allocators give what was freed back to the kernel. */
  releaseSlack(options?: ReclaimOptions): Promise<ReclaimReport> {
    return this.#slack.request(options);
  }

  /** Collects this isolate's garbage, then lets finalizers run, which free native memory. */
  collectGarbage(options?: ReclaimOptions): Promise<ReclaimReport> {
    return this.#garbage.request(options);
  }

  async #emptyCaches(): Promise<void> {
    const results = await runForRoom(() =>
      Promise.allSettled([...this.#caches].map((empty) => withinTime(empty))),
    );
    const errors = results.flatMap((result) =>
      result.status === 'rejected' ? [result.reason as unknown] : [],
    );
    if (errors.length > 0) throw new AggregateError(errors, 'A cache could not be emptied');
  }

  #grown(): number {
    return Math.max(
      this.#readings.live() - this.#liveAfterGarbage,
      this.#readings.heap().used - this.#heapAfterGarbage,
    );
  }

  async #measured(
    kind: ReclaimReport['kind'],
    reclaim: () => Promise<unknown>,
  ): Promise<ReclaimReport> {
    const start = this.#clock();
    const liveBefore = this.#readings.live();
    const anonBefore = this.#readings.rss().anon;
    let error: unknown;
    try {
      await reclaim();
    } catch (thrown) {
      error = thrown;
    }
    const report: ReclaimReport = {
      kind,
      suppressed: false,
      liveBefore,
      liveAfter: this.#readings.live(),
      anonBefore,
      anonAfter: this.#readings.rss().anon,
      ms: this.#clock() - start,
      error,
    };
    this.#onReport?.(report);
    return report;
  }

  #suppressed(kind: ReclaimReport['kind']): ReclaimReport {
    const live = this.#readings.live();
    const { anon } = this.#readings.rss();
    return {
      kind,
      suppressed: true,
      liveBefore: live,
      liveAfter: live,
      anonBefore: anon,
      anonAfter: anon,
      ms: 0,
      error: undefined,
    };
  }
}
