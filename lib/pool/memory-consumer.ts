import { threadId } from 'node:worker_threads';
import { ArgumentTypeError } from '../errors';
import type { MemoryPool } from './memory-pool';
import { MemoryReservation } from './memory-reservation';

/**
 * Makes room by writing what a consumer holds elsewhere.
 *
 * It should let go of at least `requestedBytes`, then shrink its reservations by what it let go; more
 * is better where each call costs something. It is called again while that is not enough. It may be
 * asynchronous. One callback runs at a time, and while it runs the bytes it asks for
 * itself are granted or refused at once, without spilling. For the buffer that writing takes, its
 * consumer may pass every limit by the pool's `spillExemption`; that is booked as overcommit and has
 * to be given back before the callback ends. It must end, and must not wait for a `grow` that is
 * still pending: whoever waits for room waits for it.
 */
export type SpillCallback = (requestedBytes: number) => void | Promise<void>;

/** Where a consumer's bytes lie: in native memory (Buffers too) or as objects in the V8 heap. */
export type MemoryLocation = 'native' | 'heap';

/** Options of a {@link MemoryConsumer}. */
export interface MemoryConsumerOptions {
  /** Having one means that the consumer can spill. */
  spill?: SpillCallback | undefined;
  /**
   * True without a callback for a consumer that spills by itself when `tryGrow` is refused: it gets
   * the treatment of those who can spill, but nobody else can make it. Default: whether there is a
   * callback.
   */
  canSpill?: boolean | undefined;
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
  /** Whether it can spill: when told to, if it has a callback, else by itself. */
  readonly canSpill: boolean;

  /**
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for an empty name, a `spill` that is
   *   no function, a `canSpill` that is no boolean or denies the callback, or an `in` that is neither
   *   `'native'` nor `'heap'`
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
    if (typeof options !== 'object' || options === null) {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'consumer options',
        options,
        'an object',
      );
    }
    const { spill, in: location = 'native', canSpill = spill !== undefined } = options;
    if (spill !== undefined && typeof spill !== 'function') {
      throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'spill', spill, 'a function');
    }
    if (typeof canSpill !== 'boolean' || (spill !== undefined && !canSpill)) {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'canSpill',
        canSpill,
        spill === undefined ? 'a boolean' : 'true beside a spill callback',
      );
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
    this.canSpill = canSpill;
  }

  /**
   * Another consumer of the same name, in the same place, that can spill as this one can. It has an
   * id and a spill callback of its own: this one's callback frees what this one holds.
   */
  cloneWithNewId(spill?: SpillCallback): MemoryConsumer {
    return new MemoryConsumer(this.name, {
      spill,
      in: this.in,
      canSpill: spill !== undefined || this.canSpill,
    });
  }

  /**
   * An empty reservation of this consumer in `pool`. A consumer may have several; its bytes are
   * their sum.
   *
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when `pool` is no pool
   */
  register(pool: MemoryPool): MemoryReservation {
    if (typeof pool?.requestGrow !== 'function') {
      throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'pool', pool, 'a MemoryPool');
    }
    return new MemoryReservation(this, pool);
  }
}
