import type { ContainerReading } from '../counting/readings';
import { parseSize, type Size } from '../sizes';
import type { LedgerLimits, UsageLedger } from './usage-ledger';

const MIB = 2 ** 20;
const DEFAULT_MARGIN_RATIO = 0.1;
const DEFAULT_MARGIN_MIN = 16 * MIB;
const DEFAULT_MARGIN_MAX = 256 * MIB;

/** Options of {@link ContainerHeadroom}. */
export interface ContainerHeadroomOptions {
  read: () => ContainerReading | undefined;
  /** Bytes, text, a percentage of the container's limit, or 0. */
  margin?: Size | undefined;
  /** How old a reading may be that says yes, ms. */
  maxAgeMs: number;
}

/**
 * What the container has room for. The kernel's figure takes a file to read, so a recent reading may
 * say yes; it never says no, that takes a fresh one.
 */
export class ContainerHeadroom {
  readonly #read: () => ContainerReading | undefined;
  readonly #margin: Size | undefined;
  readonly #maxAgeMs: number;
  #readAt = 0;
  #anon = 0;
  #limit = Number.POSITIVE_INFINITY;
  #containerLimit: number | undefined;

  /** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` for the margin */
  constructor({ read, margin, maxAgeMs }: ContainerHeadroomOptions) {
    this.#read = read;
    this.#margin = margin;
    this.#maxAgeMs = maxAgeMs;
    marginOf(margin, MIB);
  }

  /** What may be charged at most, bytes; infinite without a container limit. As last read. */
  get limit(): number {
    return this.#limit;
  }

  /** Anonymous bytes charged, as last read. */
  get anon(): number {
    return this.#anon;
  }

  /**
   * Reads now, and sets what a ledger is to hold the next request to, however long that takes to
   * come; {@link keep} says for how long the reading serves those after it.
   */
  refresh(ledger: UsageLedger, limits: LedgerLimits): void {
    // Before the reading: what comes to exist meanwhile may have been missed by it.
    ledger.tick();
    this.#readAt = ledger.now;
    limits.roomExisting = ledger.existing;
    const reading = this.#read();
    this.#anon = reading?.anon ?? 0;
    if (reading?.limit !== this.#containerLimit) {
      this.#containerLimit = reading?.limit;
      this.#limit =
        reading?.limit === undefined
          ? Number.POSITIVE_INFINITY
          : Math.max(0, reading.limit - marginOf(this.#margin, reading.limit));
    }
    limits.room = Math.max(0, this.#limit - this.#anon);
    // Over the limit not even what exists already is let in.
    limits.roomUntil = this.#anon > this.#limit ? -1 : Number.POSITIVE_INFINITY;
  }

  /** Lets the last reading say yes for a while, if it can at all. */
  keep(limits: LedgerLimits): void {
    limits.roomUntil = Math.min(limits.roomUntil, this.#readAt + this.#maxAgeMs);
  }
}

/**
 * What is kept free under a container's limit, bytes: what was asked for, or 10 %, 16 to 256 MiB.
 *
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
 */
export function marginOf(margin: Size | undefined, limit: number): number {
  if (margin === undefined) {
    const share = Math.floor(limit * DEFAULT_MARGIN_RATIO);
    // Half is left even in the smallest container.
    return Math.min(Math.max(share, DEFAULT_MARGIN_MIN), DEFAULT_MARGIN_MAX, Math.floor(limit / 2));
  }
  return margin === 0 ? 0 : parseSize(margin, { name: 'containerMargin', percentOf: limit });
}
