import type { Readings } from '../counting/readings';
import { MemoryConsumer, type MemoryPool } from '../pool';
import type { MemoryReclaimer } from '../reclaim';
import { FutileReclaim } from './futile-reclaim';
import type { GuardLimits } from './guard-limits';
import type { Pressure } from './victim';

/** For how long others are made to spill before somebody is shed, ms. */
const MAKE_ROOM_MS = 2000;

/** What {@link BeforeShedding} works with. */
export interface BeforeSheddingParts {
  readonly reclaimer: MemoryReclaimer;
  readonly pool: MemoryPool;
  readonly readings: Readings;
  readonly limits: GuardLimits;
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
}

/** What is tried before a task is shed: caches and garbage, then spilling, then slack. */
export class BeforeShedding {
  readonly #parts: BeforeSheddingParts;
  readonly #futile = new FutileReclaim();
  readonly #requester = new MemoryConsumer('guard');

  constructor(parts: BeforeSheddingParts) {
    this.#parts = parts;
  }

  /** Whether `consumer` is the guard itself, whose requests are nobody's refusals. */
  asks(consumer: MemoryConsumer): boolean {
    return consumer === this.#requester;
  }

  /** Gives back what can be given back. Never rejects. */
  async run({ usage, limit }: Pressure): Promise<void> {
    const { reclaimer, readings, limits, clock } = this.#parts;
    // Again and again for nothing would be dearer than what it is there to avoid.
    if (this.#futile.worthTrying(usage, clock())) {
      const report = await reclaimer.collectGarbage({ needed: Math.max(0, usage - limit) });
      if (!report.suppressed) this.#futile.tried(usage, readings.usage(), clock());
    }
    await this.#spill();
    // Where neighbours share a container, slack is room for all of them.
    if (limits.moves) await reclaimer.releaseSlack();
  }

  /** What nobody has asked the pool for may be what keeps usage over the limit. */
  async #spill(): Promise<void> {
    const { pool, readings, limits } = this.#parts;
    const { bytes } = limits;
    if (
      bytes === undefined ||
      readings.usage() <= bytes ||
      pool.consumers.largestSpillable(new Set(), () => true) === undefined
    ) {
      return;
    }
    const room = this.#requester.register(pool);
    try {
      // One byte is refused while usage is over the limit, and what is missing is spilled for it.
      await room.grow(1, { signal: AbortSignal.timeout(MAKE_ROOM_MS) });
    } catch {
      // There was nothing to spill, or not in time.
    } finally {
      room.close();
    }
  }
}
