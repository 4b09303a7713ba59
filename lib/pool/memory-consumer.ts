import { threadId } from 'node:worker_threads';
import { ArgumentTypeError } from '../errors';
import type { MemoryPool } from './memory-pool';
import { MemoryReservation } from './memory-reservation';

/**
 * Makes room by writing what a consumer holds elsewhere.
 *
 * It should let go of at least `requestedBytes`, then shrink its reservations by what it let go.
 * It may be asynchronous. One callback runs at a time, and while it runs the bytes it asks for
 * itself are granted or refused at once, without spilling. It must end, and must not wait for a
 * `grow` that is still pending: whoever waits for room waits for it.
 */
export type SpillCallback = (requestedBytes: number) => void | Promise<void>;

/** Where a consumer's bytes lie: in native memory (Buffers too) or as objects in the V8 heap. */
export type MemoryLocation = 'native' | 'heap';

/** Options of a {@link MemoryConsumer}. */
export interface MemoryConsumerOptions {
  /** Having one means that the consumer can spill. */
  spill?: SpillCallback | undefined;
  /** Default `'native'`. Growth in the V8 heap is held to V8's own ceiling too. */
  in?: MemoryLocation | undefined;
}

// The thread's number makes ids unique over all Workers of the process without sharing anything.
const ID_BASE = threadId * 2 ** 32;
let lastId = 0;

/** Somebody who holds memory. Known by its id; names may repeat. */
export class MemoryConsumer {
  /** Unique in this process, Workers included. */
  readonly id: number;
  readonly name: string;
  readonly in: MemoryLocation;
  readonly spill: SpillCallback | undefined;

  /**
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for an empty name, a `spill` that is
   *   no function or an `in` that is neither `'native'` nor `'heap'`
   */
  constructor(name: string, options: MemoryConsumerOptions = {}) {
    if (typeof name !== 'string' || name === '') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'consumer name',
        name,
        'a non-empty string',
      );
    }
    const { spill, in: location = 'native' } = options;
    if (spill !== undefined && typeof spill !== 'function') {
      throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'spill', spill, 'a function');
    }
    if (location !== 'native' && location !== 'heap') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'in',
        location,
        "'native' or 'heap'",
      );
    }
    lastId += 1;
    this.id = ID_BASE + lastId;
    this.name = name;
    this.in = location;
    this.spill = spill;
  }

  /** Whether it has a spill callback. */
  get canSpill(): boolean {
    return this.spill !== undefined;
  }

  /**
   * An empty reservation of this consumer in `pool`. A consumer may have several; its bytes are
   * their sum.
   */
  register(pool: MemoryPool): MemoryReservation {
    return new MemoryReservation(this, pool);
  }
}
