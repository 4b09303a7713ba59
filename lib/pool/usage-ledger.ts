import type { HeapReading } from '../counting/readings';
import type { RefusalSource } from '../errors';

/** What a request is held to. One object, changed in place: nothing is allocated per request. */
export interface LedgerLimits {
  /** Usage, pending grants and the request together, bytes. */
  usage: number;
  /** What is reserved under the ledger's key and the request together, bytes. */
  reserved: number;
  /** Of `usage`, what consumers that can spill leave to those that cannot, bytes. */
  unspillableReserve: number;
  /** What the container had room for when it was last read, bytes. */
  room: number;
  /** {@link UsageLedger.existing} at that time. */
  roomExisting: number;
  /** Until when that reading may say yes, on the ledger's clock, ms. */
  roomUntil: number;
}

/** The answer of a ledger: granted, or the check that said no. */
export type BookingVerdict = 'granted' | Exclude<RefusalSource, 'heap'>;

/**
 * Where usage is compared with a limit, and where grants that are not allocated yet are booked
 * beside it, in one step: two callers are never let in on the same reading.
 *
 * Grants age in steps: one made in step s is forgotten in step s + 9, eight of which make the age
 * that the ledger was made with.
 */
export interface UsageLedger {
  /** Length of a step, ms. */
  readonly stepMs: number;
  /** The present step, as of the last call. */
  readonly step: number;
  /** Milliseconds, monotonic, as of the last call. */
  readonly now: number;
  /** Bytes granted and not known to be allocated, whoever got them, now. */
  readonly pending: number;
  /** Bytes reserved under this ledger's key, now. */
  readonly reserved: number;
  /** Of `reserved`, what consumers hold that cannot spill. */
  readonly unspillable: number;
  /** Bytes that stopped being pending or were let in existing, as of the last call. Never falls. */
  readonly existing: number;
  /** The highest usage that a request was compared with, bytes. */
  readonly peakUsage: number;

  /**
   * Grants and books, or leaves everything as it was. `needed` of the `bytes` are not allocated yet.
   * `'container'` also says that the reading of the container is too old.
   */
  book(bytes: number, needed: number, canSpill: boolean, limits: LedgerLimits): BookingVerdict;
  /** Books whatever the limits say. */
  bookUnchecked(bytes: number, needed: number, canSpill: boolean): void;
  /** Bytes are no longer reserved; finds out the present step. Those that are pending are retired apart. */
  giveBack(bytes: number, canSpill: boolean): void;
  /** Forgets bytes granted in a step; `allocated` tells that they exist now. */
  retire(step: number, bytes: number, allocated: boolean): void;
  /** Finds out the present step. */
  tick(): number;
  /** This isolate's heap, at most a millisecond old as of the last `tick` or booking. */
  heap(): HeapReading;
  /** Forgets what it has cached of usage. */
  refresh(): void;
}
