import type { RefusalSource } from '../errors';
import type { MemoryReservation } from './memory-reservation';

/** What one spill callback did. */
export interface SpillReport {
  /** Whose callback ran. */
  readonly consumer: string;
  /** What it was asked for, bytes. */
  readonly requested: number;
  /** By how much the consumer's reservations shrank meanwhile, bytes, never negative. */
  readonly freed: number;
  /** What it threw, if it did. */
  readonly error: unknown;
}

/** Told what a pool decides. Must not throw and must not call back into the pool. */
export interface PoolObserver {
  /** A `tryGrow` was refused, or a `grow` failed for good. Called on the hot path. */
  refused(source: RefusalSource, reservation: MemoryReservation, bytes: number): void;
  /** A spill callback has ended. */
  spilled(report: SpillReport): void;
}
