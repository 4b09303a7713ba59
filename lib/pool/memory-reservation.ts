import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { checkBytes } from './bytes';
import type { ConsumerAccount } from './consumer-registry';
import type { GrowOptions, GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryPool } from './memory-pool';

/**
 * Bytes that a consumer holds in a pool. Made by {@link MemoryConsumer.register}.
 *
 * Every method throws `ERR_OOM_GUARD_INVALID_BYTES` (a `TypeError` or `RangeError`) for anything
 * that is not a whole, non-negative number of bytes, and `ERR_OOM_GUARD_RELEASED` (a `TypeError`)
 * once the reservation is closed. Whenever one throws, the reservation and the pool are as before.
 */
export class MemoryReservation {
  readonly consumer: MemoryConsumer;
  readonly #pool: MemoryPool;
  readonly #account: ConsumerAccount;
  #size = 0;
  #overcommitted = 0;
  #closed = false;

  /** Use {@link MemoryConsumer.register}. */
  constructor(consumer: MemoryConsumer, pool: MemoryPool) {
    this.consumer = consumer;
    this.#pool = pool;
    this.#account = pool.consumers.open(consumer);
    if (this.#account.reservations === 1) {
      pool.register(consumer);
    }
  }

  /** Bytes held, overcommit included. */
  get size(): number {
    return this.#size;
  }

  /** The part of {@link size} that was taken without asking. */
  get overcommitted(): number {
    return this.#overcommitted;
  }

  /** Whether it was given back for good. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Grows if there is room now. Never reclaims, never spills, never waits, allocates nothing. Zero
   * bytes are always granted.
   *
   * @returns false, with everything as it was, when there is no room
   */
  tryGrow(bytes: number, options?: GrowOptions): boolean {
    const alreadyAllocated = this.#check(bytes, options);
    const verdict = this.#attempt(bytes, alreadyAllocated);
    if (verdict === 'granted') {
      return true;
    }
    this.#pool.observer?.refused(verdict, this, bytes);
    return false;
  }

  /**
   * Grows, making room if need be: memory that was freed is given back to the kernel, garbage is
   * collected, the largest consumers are made to spill, this one included. Those who wait are served
   * in order of arrival. Zero bytes are granted at once.
   *
   * @throws ResourcesExhaustedError (rejects with it) when no room could be made
   */
  async grow(bytes: number, options?: GrowOptions): Promise<void> {
    const alreadyAllocated = this.#check(bytes, options);
    if (bytes === 0) {
      return;
    }
    const pool = this.#pool;
    // While others wait for room a newcomer must not help itself to what is being made for them.
    if (!pool.mustQueue() && this.#attempt(bytes, alreadyAllocated) === 'granted') {
      return;
    }
    await pool.makeRoom({
      reservation: this,
      bytes,
      alreadyAllocated,
      arrivedAt: pool.clock(),
      suppressed: new Set(),
      attempt: () => {
        this.#checkOpen('grow');
        return this.#attempt(bytes, alreadyAllocated);
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
    this.#size += bytes;
    this.#overcommitted += bytes;
    this.#account.overcommitted += bytes;
    this.#account.add(bytes);
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
    this.#checkOpen('shrink');
    checkBytes(bytes, 'bytes');
    if (bytes > this.#size) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_BYTES',
        'bytes',
        bytes,
        `at most the ${this.#size} bytes that ${this.consumer.name} holds here`,
      );
    }
    this.#giveBack(bytes);
  }

  /** Gives everything back; the reservation can be used again. Returns how many bytes it held. */
  free(): number {
    this.#checkOpen('free');
    const bytes = this.#size;
    this.#giveBack(bytes);
    return bytes;
  }

  /** Gives everything back for good. Closing again does nothing. */
  close(): void {
    if (this.#closed) {
      return;
    }
    this.#giveBack(this.#size);
    this.#closed = true;
    if (this.#pool.consumers.close(this.#account)) {
      this.#pool.unregister(this.consumer);
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

  #attempt(bytes: number, alreadyAllocated: number): GrowVerdict {
    if (bytes === 0) {
      return 'granted';
    }
    const verdict = this.#pool.requestGrow(this, bytes, alreadyAllocated);
    if (verdict === 'granted') {
      this.#size += bytes;
      this.#account.add(bytes);
    }
    return verdict;
  }

  #giveBack(bytes: number): void {
    if (bytes === 0) {
      return;
    }
    const repaid = Math.min(bytes, this.#overcommitted);
    this.#size -= bytes;
    this.#overcommitted -= repaid;
    this.#account.reserved -= bytes;
    this.#account.overcommitted -= repaid;
    this.#pool.shrink(this, bytes);
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
