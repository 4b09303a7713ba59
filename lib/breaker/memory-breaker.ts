import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { checkPositive } from '../numbers';
import { parseSize, type Size } from '../sizes';

const DEFAULT_CHECKS = 3;
const DEFAULT_HOLD_MS = 100;
const DEFAULT_MAX_GAP_MS = 2000;
const DEFAULT_LOW_WATER = 0.9;

/** Options of {@link MemoryBreaker}. */
export interface MemoryBreakerOptions {
  /** Bytes, or text such as `'512MiB'`. Usage equal to it is not over it. */
  limit: Size;
  /** What is compared with the limit, bytes. */
  usage: () => number;
  /** Checks in a row over the limit that it takes, whole, 1 or more. Default 3. */
  checks?: number | undefined;
  /** For how long usage must have been over the limit without a break, ms, 0 or more. Default 100. */
  holdMs?: number | undefined;
  /**
   * How far apart two checks may be and still be in a row, ms, over 0. After a longer gap nobody knows
   * what was in between, and counting starts over. Default 2000.
   */
  maxGapMs?: number | undefined;
  /** A trip ends when usage is under this share of the limit, over 0 to 1. Default 0.9. */
  lowWater?: number | undefined;
  /** Milliseconds, monotonic. Default `performance.now`. */
  clock?: (() => number) | undefined;
}

/**
 * Decides when one task has to go: usage was over the limit at so many checks in a row and for so
 * long. Any check at or under the limit starts over, and so does a gap between checks. A trip ends
 * under the low-water mark, so that usage at the limit does not make it flutter.
 */
export class MemoryBreaker {
  #limit: number;
  readonly #usage: () => number;
  readonly #checks: number;
  readonly #holdMs: number;
  readonly #maxGapMs: number;
  readonly #lowWater: number;
  readonly #clock: () => number;
  #streak = 0;
  #since = 0;
  #lastAt = 0;
  #tripped = false;
  #lastUsage = 0;

  /**
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` for the limit,
   *   `ERR_OOM_GUARD_INVALID_ARGUMENT` for the rest
   */
  constructor(options: MemoryBreakerOptions) {
    this.#limit = parseSize(options.limit, { name: 'limit' });
    this.#usage = options.usage;
    this.#checks = options.checks ?? DEFAULT_CHECKS;
    this.#holdMs = options.holdMs ?? DEFAULT_HOLD_MS;
    this.#maxGapMs = checkPositive('maxGapMs', options.maxGapMs ?? DEFAULT_MAX_GAP_MS);
    this.#lowWater = checkPositive('lowWater', options.lowWater ?? DEFAULT_LOW_WATER, 1);
    this.#clock = options.clock ?? (() => performance.now());
    checkOption(
      'checks',
      this.#checks,
      Number.isSafeInteger(this.#checks) && this.#checks >= 1,
      'a whole number of at least 1',
    );
    checkOption(
      'holdMs',
      this.#holdMs,
      Number.isFinite(this.#holdMs) && this.#holdMs >= 0,
      'a number of milliseconds of at least 0',
    );
  }

  /** Bytes. */
  get limit(): number {
    return this.#limit;
  }

  /** Moves the limit, bytes. What was counted so far stands. */
  set limit(bytes: number) {
    this.#limit = parseSize(bytes, { name: 'limit' });
  }

  /** Whether the last check found it tripped. */
  get tripped(): boolean {
    return this.#tripped;
  }

  /** Usage at the last check, bytes. */
  get lastUsage(): number {
    return this.#lastUsage;
  }

  /** Whether usage was over the limit at the last check. */
  get over(): boolean {
    return this.#lastUsage > this.#limit;
  }

  /** Whether usage was under the low-water mark at the last check. */
  get low(): boolean {
    return this.#lastUsage < this.#limit * this.#lowWater;
  }

  /**
   * Starts over, as if usage had just been under the limit: a task was shed, and the next goes only
   * if usage stays over the limit for as long again.
   */
  rearm(): void {
    this.#streak = 0;
    this.#tripped = false;
  }

  /** Looks at usage now. True while tripped. */
  check(): boolean {
    this.#lastUsage = this.#usage();
    if (!(this.#lastUsage > this.#limit)) {
      this.#streak = 0;
      this.#tripped &&= !this.low;
      return this.#tripped;
    }
    const now = this.#clock();
    if (this.#streak === 0 || now - this.#lastAt > this.#maxGapMs) {
      this.#since = now;
      this.#streak = 0;
    }
    this.#lastAt = now;
    this.#streak += 1;
    this.#tripped ||= this.#streak >= this.#checks && now - this.#since >= this.#holdMs;
    return this.#tripped;
  }
}

function checkOption(name: string, value: unknown, good: boolean, accepted: string): void {
  if (typeof value !== 'number') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
  if (!good) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
}
