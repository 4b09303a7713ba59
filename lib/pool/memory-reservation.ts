import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { checkBytes } from './bytes';
import type { GrowOptions, GrowVerdict, WaitOptions } from './grow-request';
import { type Holding, unwatchForLeak, watchForLeak } from './leaks';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryPool } from './memory-pool';
import { Patience } from './patience';
import type { PendingGrants } from './pending-grants';

/** A wheel of grants and the pool that turns it. */
export interface GrantsOf {
  readonly pool: MemoryPool;
  readonly wheel: PendingGrants;
}

/**
 * Bytes that a consumer holds in a pool. Made by {@link MemoryConsumer.register}.
 *
 * Every method throws `ERR_OOM_GUARD_INVALID_BYTES` (a `TypeError` or `RangeError`) for anything
 * that is not a whole, non-negative number of bytes, and `ERR_OOM_GUARD_RELEASED` (a `TypeError`)
 * once the reservation is closed. Whenever one throws, the reservation and the pool are as before.
 *
 * One that is dropped without being closed is reported when it is collected, and its bytes return.
 * That is a net, not a way to work: it comes late, and a reservation that its consumer's spill
 * callback refers to is never collected while the pool is in use.
 */
export class MemoryReservation {
  readonly consumer: MemoryConsumer;
  readonly #pool: MemoryPool;
  readonly #holding: Holding;
  #closed = false;
  /** For the pool that measures: what it granted here and has not seen as allocated. */
  grants: GrantsOf | undefined;
  /** For whoever it belongs to: what ends the waiting of its `grow`, beside the caller's signal. */
  cancelWith: (() => AbortSignal) | undefined;

  /** Use {@link MemoryConsumer.register}. */
  constructor(consumer: MemoryConsumer, pool: MemoryPool, collected?: Holding) {
    this.consumer = consumer;
    this.#pool = pool;
    if (collected !== undefined) {
      this.#holding = collected;
      return;
    }
    const account = pool.consumers.open(consumer);
    this.#holding = { pool, account, size: 0, overcommitted: 0 };
    if (account.reservations === 1) {
      pool.register(consumer);
    }
    watchForLeak(this, this.#holding, revive);
  }

  /** Bytes held, overcommit included. */
  get size(): number {
    return this.#holding.size;
  }

  /** The part of {@link size} that was taken without asking. */
  get overcommitted(): number {
    return this.#holding.overcommitted;
  }

  /** What its consumer holds in the pool, over all its reservations. */
  get consumerReserved(): number {
    return this.#holding.account.reserved;
  }

  /** Whether it was given back for good. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Grows if there is room now. Never reclaims, never spills, never waits, allocates nothing. Zero
   * bytes are always granted. While somebody waits in `grow` for room that this request would take
   * away from them, it is refused.
   *
   * @returns false, with everything as it was, when there is no room
   */
  tryGrow(bytes: number, options?: GrowOptions): boolean {
    const alreadyAllocated = this.#check(bytes, options);
    if (bytes === 0) {
      return true;
    }
    const verdict =
      this.#pool.standsInLine(this.consumer) ?? this.#attempt(bytes, alreadyAllocated);
    if (verdict === 'granted') {
      return true;
    }
    this.#pool.observer?.refused(verdict, this, bytes, alreadyAllocated);
    return false;
  }

  /**
   * Grows, making room if need be: memory that was freed is given back to the kernel, garbage is
   * collected, the largest consumers are made to spill, this one included. Those who wait are served
   * in order of arrival, and nobody's `tryGrow` takes from them what is being made. Zero bytes are
   * granted at once.
   *
   * @throws ResourcesExhaustedError (rejects with it) when no room could be made, or not before the
   *   deadline
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` (rejects with it)
   *   for a signal or a deadline that is none
   * @throws the reason of the signal (rejects with it) when that aborts before the bytes are granted
   */
  async grow(bytes: number, options?: WaitOptions): Promise<void> {
    const alreadyAllocated = this.#check(bytes, options);
    const pool = this.#pool;
    Patience.of(options, pool.clock)?.start();
    if (bytes === 0) {
      return;
    }
    // While others wait for room a newcomer must not help itself to what is being made for them.
    if (!pool.mustQueue() && this.#attempt(bytes, alreadyAllocated) === 'granted') {
      return;
    }
    const patience = Patience.of(this.#waitOptions(options), pool.clock);
    patience?.start();
    await pool.makeRoom({
      reservation: this,
      bytes,
      alreadyAllocated,
      arrivedAt: pool.clock(),
      patience,
      suppressed: new Set(),
      attempt: () => {
        patience?.check();
        this.#checkOpen('grow');
        const verdict = this.#attempt(bytes, alreadyAllocated);
        if (verdict === 'granted') {
          patience?.granted();
        }
        return verdict;
      },
    });
  }

  /**
   * Grows without asking, past any limit, for bytes that must be had. They are booked as
   * overcommit, count for everybody else's requests and are the first that `shrink` gives back.
   */
  overcommit(bytes: number, options?: GrowOptions): void {
    const alreadyAllocated = this.#check(bytes, options);
    if (bytes === 0) {
      return;
    }
    this.#pool.overcommit(this, bytes, alreadyAllocated);
    this.#add(bytes, bytes);
  }

  /**
   * Says that `bytes` of what was granted have been allocated and written to by now, so that they
   * are no longer counted beside the live bytes they have become part of. Optional: a grant stops being counted
   * that way after a while by itself. Saying too much does no harm.
   */
  allocated(bytes: number): void {
    this.#checkOpen('allocated');
    checkBytes(bytes, 'bytes');
    this.#pool.allocated(this, bytes);
  }

  /**
   * Gives bytes back, overcommitted ones first.
   *
   * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_BYTES` when fewer are held
   */
  shrink(bytes: number): void {
    this.#checkHeld('shrink', bytes);
    this.#giveBack(bytes);
  }

  /**
   * Gives bytes back, or leaves everything as it was.
   *
   * @returns false when fewer are held
   */
  tryShrink(bytes: number): boolean {
    this.#checkOpen('tryShrink');
    checkBytes(bytes, 'bytes');
    if (bytes > this.size) {
      return false;
    }
    this.#giveBack(bytes);
    return true;
  }

  /**
   * Holds `bytes` from now on: gives back what is over it, or grows by what is missing as
   * {@link grow} does. Two that run at the same time each add what was missing when they began.
   *
   * @throws as {@link grow} does
   */
  async resize(bytes: number, options?: WaitOptions): Promise<void> {
    this.#checkOpen('resize');
    checkBytes(bytes, 'bytes');
    if (bytes <= this.size) {
      this.#giveBack(this.size - bytes);
      return;
    }
    await this.grow(bytes - this.size, options);
  }

  /**
   * Holds `bytes` from now on if there is room, as {@link tryGrow} does; getting smaller always
   * succeeds.
   *
   * @returns false, with everything as it was, when there is no room
   */
  tryResize(bytes: number, options?: GrowOptions): boolean {
    this.#checkOpen('tryResize');
    checkBytes(bytes, 'bytes');
    if (bytes <= this.size) {
      this.#giveBack(this.size - bytes);
      return true;
    }
    return this.tryGrow(bytes - this.size, options);
  }

  /**
   * A new reservation of the same consumer that holds `bytes` of what this one held. The total does
   * not change. Overcommitted bytes go last.
   *
   * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_BYTES` when fewer are held
   */
  split(bytes: number): MemoryReservation {
    this.#checkHeld('split', bytes);
    const part = this.newEmpty();
    const overcommitted = Math.max(0, bytes - (this.size - this.overcommitted));
    this.#holding.size -= bytes;
    this.#holding.overcommitted -= overcommitted;
    part.#holding.size = bytes;
    part.#holding.overcommitted = overcommitted;
    this.#pool.moved(this, part, bytes);
    return part;
  }

  /** A new reservation of the same consumer that holds all that this one held; this one is empty. */
  take(): MemoryReservation {
    this.#checkOpen('take');
    return this.split(this.size);
  }

  /** A new, empty reservation of the same consumer in the same pool. */
  newEmpty(): MemoryReservation {
    this.#checkOpen('newEmpty');
    const sibling = new MemoryReservation(this.consumer, this.#pool);
    sibling.cancelWith = this.cancelWith;
    return sibling;
  }

  /** Gives everything back; the reservation can be used again. Returns how many bytes it held. */
  free(): number {
    this.#checkOpen('free');
    const bytes = this.size;
    this.#giveBack(bytes);
    return bytes;
  }

  /**
   * Gives everything back for good. The consumer leaves the pool with its last reservation. Closing
   * again does nothing.
   */
  close(): void {
    if (this.#closed) {
      return;
    }
    this.#giveBack(this.size);
    this.#closed = true;
    unwatchForLeak(this.#holding);
    if (this.#pool.consumers.close(this.#holding.account)) {
      this.#pool.unregister(this.consumer);
      // Others may have a larger share now.
      this.#pool.released();
    }
  }

  /** The same as {@link close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** The same as {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #waitOptions(options: WaitOptions | undefined): WaitOptions | undefined {
    const own = this.cancelWith?.();
    if (own === undefined) {
      return options;
    }
    const signal = options?.signal === undefined ? own : AbortSignal.any([options.signal, own]);
    return { ...options, signal };
  }

  #attempt(bytes: number, alreadyAllocated: number): GrowVerdict {
    const pool = this.#pool;
    const verdict = pool.requestGrow(this, bytes, alreadyAllocated);
    if (verdict === 'granted') {
      this.#add(bytes, 0);
      return verdict;
    }
    if (pool.exempt(this, this.#holding.account, bytes, alreadyAllocated)) {
      this.#add(bytes, bytes);
      return 'granted';
    }
    return verdict;
  }

  #add(bytes: number, overcommitted: number): void {
    const holding = this.#holding;
    holding.size += bytes;
    holding.overcommitted += overcommitted;
    holding.account.add(bytes, overcommitted);
  }

  #giveBack(bytes: number): void {
    if (bytes === 0) {
      return;
    }
    const holding = this.#holding;
    const repaid = Math.min(bytes, holding.overcommitted);
    holding.size -= bytes;
    holding.overcommitted -= repaid;
    holding.account.subtract(bytes, repaid);
    this.#pool.shrink(this, bytes);
    this.#pool.released();
  }

  #check(bytes: number, options: GrowOptions | undefined): number {
    this.#checkOpen('grow');
    checkBytes(bytes, 'bytes');
    const alreadyAllocated = options?.alreadyAllocated;
    if (alreadyAllocated === undefined) {
      return this.consumer.in === 'heap' ? bytes : 0;
    }
    checkBytes(alreadyAllocated, 'alreadyAllocated');
    if (alreadyAllocated > bytes) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_BYTES',
        'alreadyAllocated',
        alreadyAllocated,
        `at most the ${bytes} bytes that are requested`,
      );
    }
    return alreadyAllocated;
  }

  #checkHeld(method: string, bytes: number): void {
    this.#checkOpen(method);
    checkBytes(bytes, 'bytes');
    if (bytes > this.size) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_BYTES',
        'bytes',
        bytes,
        `at most the ${this.size} bytes that ${this.consumer.name} holds here`,
      );
    }
  }

  #checkOpen(method: string): void {
    if (this.#closed) {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_RELEASED',
        `the reservation of ${this.consumer.name} to ${method}`,
        'a closed one',
        'an open one',
      );
    }
  }
}

function revive(holding: Holding): MemoryReservation {
  return new MemoryReservation(holding.account.consumer, holding.pool, holding);
}
