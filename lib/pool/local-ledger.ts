import type { HeapReading, Readings } from '../counting/readings';
import { GRANT_STEPS, PendingGrants } from './pending-grants';
import type { BookingVerdict, LedgerLimits, UsageLedger } from './usage-ledger';

/** Options of {@link LocalLedger}. */
export interface LocalLedgerOptions {
  readings: Pick<Readings, 'usage' | 'heap'>;
  /** Milliseconds, monotonic. */
  clock: () => number;
  /** For how long a grant counts, ms, over 0. */
  pendingMs: number;
}

/** The ledger of one pool that shares with nobody: for numbers that are not this process's own. */
export class LocalLedger implements UsageLedger {
  readonly stepMs: number;
  readonly #readings: Pick<Readings, 'usage' | 'heap'>;
  readonly #clock: () => number;
  readonly #grants = new PendingGrants();
  #now = 0;
  #step = 0;
  #reserved = 0;
  #unspillable = 0;
  #existing = 0;
  #peakUsage = 0;

  constructor({ readings, clock, pendingMs }: LocalLedgerOptions) {
    this.stepMs = pendingMs / GRANT_STEPS;
    this.#readings = readings;
    this.#clock = clock;
    this.tick();
  }

  get step(): number {
    return this.#step;
  }

  get now(): number {
    return this.#now;
  }

  get pending(): number {
    return this.#grants.total(this.tick());
  }

  get reserved(): number {
    return this.#reserved;
  }

  get unspillable(): number {
    return this.#unspillable;
  }

  get existing(): number {
    return this.#existing + this.#grants.aged;
  }

  get peakUsage(): number {
    return this.#peakUsage;
  }

  book(bytes: number, needed: number, canSpill: boolean, limits: LedgerLimits): BookingVerdict {
    const wanted = this.pending + needed;
    const usage = this.#readings.usage();
    if (usage > this.#peakUsage) {
      this.#peakUsage = usage;
    }
    const kept = canSpill ? Math.max(0, limits.unspillableReserve - this.#unspillable) : 0;
    if (usage + wanted > limits.usage - kept) {
      return 'usage';
    }
    const unseen = this.existing - limits.roomExisting + bytes - needed;
    if (this.#now > limits.roomUntil || unseen + wanted > limits.room) {
      return 'container';
    }
    if (this.#reserved + bytes > limits.reserved) {
      return 'pool';
    }
    this.#add(bytes, needed, canSpill);
    return 'granted';
  }

  bookUnchecked(bytes: number, needed: number, canSpill: boolean): void {
    this.tick();
    this.#add(bytes, needed, canSpill);
  }

  giveBack(bytes: number, canSpill: boolean): void {
    this.tick();
    this.#reserved -= bytes;
    if (!canSpill) {
      this.#unspillable -= bytes;
    }
  }

  retire(step: number, bytes: number, allocated: boolean): void {
    this.#grants.total(this.tick());
    this.#grants.take(step, bytes);
    if (allocated) {
      this.#existing += bytes;
    }
  }

  tick(): number {
    this.#now = this.#clock();
    this.#step = Math.floor(this.#now / this.stepMs);
    return this.#step;
  }

  heap(): HeapReading {
    return this.#readings.heap();
  }

  refresh(): void {}

  #add(bytes: number, needed: number, canSpill: boolean): void {
    this.#reserved += bytes;
    if (!canSpill) {
      this.#unspillable += bytes;
    }
    this.#existing += bytes - needed;
    if (needed > 0) {
      this.#grants.add(needed, this.#step);
    }
  }
}
