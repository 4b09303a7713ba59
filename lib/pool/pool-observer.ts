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
  /** Whether it asked for room that only a spill could have made, its own too. */
  readonly recursed: boolean;
  /** Of what it was exempted for while it ran, what it has not given back, bytes. */
  readonly kept: number;
}

/** A reservation that nobody can give back any more. */
export interface LeakReport {
  /** Whose it was. */
  readonly consumer: string;
  /** What it held, bytes. They have been given back to the pool. */
  readonly bytes: number;
}

/** Told what a pool decides. Must not throw and must not call back into the pool. */
export interface PoolObserver {
  /**
   * A `tryGrow` was refused, or a `grow` failed for good. Called on the hot path.
   *
   * @param existing how many of the bytes exist already
   */
  refused(
    source: RefusalSource,
    reservation: MemoryReservation,
    bytes: number,
    existing: number,
  ): void;
  /** A spill callback has ended. */
  spilled(report: SpillReport): void;
  /** A reservation was collected as garbage without being closed. Default: a process warning. */
  leaked?(report: LeakReport): void;
}
