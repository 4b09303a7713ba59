import type { ReclaimOptions } from '../pool/reclaimer';

/** Options of {@link LimitedRun}. */
export interface LimitedRunOptions<T> {
  /** How long after the end of a run the next one may start, ms. */
  intervalMs: number;
  clock: () => number;
  delay: (ms: number) => Promise<unknown>;
  /** Does it. */
  run: () => Promise<T>;
  /** Whether it is worth while before its time. Default: never. */
  worthWhile?: ((needed: number) => boolean) | undefined;
  /** The answer where nothing is done. */
  suppressed: () => T;
}

/** Something that is done by one at a time, not too often, and shared by all who ask meanwhile. */
export class LimitedRun<T> {
  readonly #options: LimitedRunOptions<T>;
  #runs = 0;
  #startedAt = Number.NEGATIVE_INFINITY;
  #endedAt = Number.NEGATIVE_INFINITY;
  /** The run under way or, when it has ended, the last one. */
  #latest: Promise<T> | undefined;
  #underWay = false;

  constructor(options: LimitedRunOptions<T>) {
    this.#options = options;
  }

  async request({ whenLimited = 'skip', since, needed }: ReclaimOptions = {}): Promise<T> {
    if (whenLimited === 'skip') {
      if (this.#underWay && this.#latest !== undefined) {
        return this.#latest;
      }
      const early = this.#waitMs() > 0;
      return early && !(needed !== undefined && this.#options.worthWhile?.(needed))
        ? this.#options.suppressed()
        : this.#start();
    }
    const runsBefore = this.#runs;
    let waits = whenLimited === 'wait';
    for (;;) {
      const recent = waits && since !== undefined && this.#startedAt > since;
      if (this.#latest !== undefined && (recent || this.#runs > runsBefore)) {
        return this.#latest;
      }
      if (this.#underWay) {
        await this.#latest;
      } else if (waits && this.#waitMs() > 0) {
        await this.#options.delay(this.#waitMs());
        waits = false;
      } else {
        return this.#start();
      }
    }
  }

  #waitMs(): number {
    return this.#endedAt + this.#options.intervalMs - this.#options.clock();
  }

  #start(): Promise<T> {
    this.#runs += 1;
    this.#startedAt = this.#options.clock();
    this.#underWay = true;
    this.#latest = this.#options.run().finally(() => {
      this.#underWay = false;
      this.#endedAt = this.#options.clock();
    });
    return this.#latest;
  }
}
