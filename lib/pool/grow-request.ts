import type { RefusalSource } from '../errors';
import type { MemoryReservation } from './memory-reservation';
import type { Patience } from './patience';

/** The answer to a request: granted, or the check that said no. */
export type GrowVerdict = 'granted' | RefusalSource;

/** Options of the three ways to grow. */
export interface GrowOptions {
  /**
   * How many of the requested bytes exist already and are therefore in the live bytes (or in the
   * used heap) that the request is measured against: 0 to the request. A batch that was read before
   * it is reserved is wholly allocated.
   *
   * Default 0, and the whole request for consumers in the V8 heap, whose rows exist before anyone
   * can tell their size.
   */
  alreadyAllocated?: number | undefined;
}

/** Options of `grow`. */
export interface WaitOptions extends GrowOptions {
  /** Ends the waiting: `grow` rejects with its reason, and nothing is granted any more. */
  signal?: AbortSignal | undefined;
  /**
   * How long to wait at most, ms, 0 or more. Within that time `grow` also waits for others to give
   * back, which without a deadline it does not: then it fails once there is nothing left to spill.
   */
  deadlineMs?: number | undefined;
}

/** A `grow` that was refused at first and waits for room. */
export interface GrowRequest {
  readonly reservation: MemoryReservation;
  readonly bytes: number;
  readonly alreadyAllocated: number;
  /** When it was made, on the pool's clock, ms. */
  readonly arrivedAt: number;
  /** How long its caller waits; `undefined`: until it is served. */
  readonly patience: Patience | undefined;
  /** Kinds of reclaim that a rate limit kept from running for this request. */
  readonly suppressed: Set<'slack' | 'garbage'>;
  /**
   * Asks once more and, if granted, books at once.
   *
   * @throws ArgumentTypeError when the reservation was closed in the meantime
   * @throws whatever ended the waiting when its caller waits no longer
   */
  attempt(): GrowVerdict;
}
