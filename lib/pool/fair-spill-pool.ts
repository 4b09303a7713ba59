import type { RefusalSource } from '../errors';
import { formatSize, parseSize, type Size } from '../sizes';
import { addReserved } from './bytes';
import type { GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryLimit } from './memory-limit';
import { MemoryPool, type MemoryPoolOptions, type RefusalFigures } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';

/**
 * Divides its limit evenly among the consumers that can spill; those that cannot get what is free,
 * first come, first served.
 *
 * The share of a consumer that can spill is what those that cannot have left, divided by the number
 * of registered consumers that can. It covers all reservations of the consumer together. Shares
 * shrink when somebody registers, and what was granted before stays: so the total is held to the
 * limit as well. A consumer that is registered and idle keeps its share until it is closed.
 */
export class FairSpillPool extends MemoryPool {
  override readonly name = 'fair';
  #memoryLimit: MemoryLimit;
  #limit: number;
  #spillable = 0;
  #unspillable = 0;
  #spillableConsumers = 0;

  /**
   * @param limit bytes, or text such as `'512MiB'`
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
   */
  constructor(limit: Size, options?: MemoryPoolOptions) {
    super(options);
    this.#limit = parseSize(limit, { name: 'limit' });
    this.#memoryLimit = { kind: 'finite', bytes: this.#limit };
  }

  override get memoryLimit(): MemoryLimit {
    return this.#memoryLimit;
  }

  /**
   * Moves the limit, bytes. What was granted stays.
   *
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
   */
  setLimit(bytes: number): void {
    this.#limit = parseSize(bytes, { name: 'limit' });
    this.#memoryLimit = { kind: 'finite', bytes: this.#limit };
  }

  override get reserved(): number {
    return this.#spillable + this.#unspillable;
  }

  /** What one consumer that can spill may hold at most, bytes. */
  get share(): number {
    const divisible = Math.max(0, this.#limit - this.#unspillable);
    return Math.floor(divisible / Math.max(1, this.#spillableConsumers));
  }

  /** Its share for a consumer that can spill, for others the limit. */
  override memoryLimitFor(consumer: MemoryConsumer): MemoryLimit {
    return { kind: 'finite', bytes: consumer.canSpill ? this.share : this.#limit };
  }

  override register(consumer: MemoryConsumer): void {
    if (consumer.canSpill) {
      this.#spillableConsumers += 1;
    }
  }

  override unregister(consumer: MemoryConsumer): void {
    if (consumer.canSpill) {
      this.#spillableConsumers -= 1;
    }
  }

  override requestGrow(reservation: MemoryReservation, bytes: number): GrowVerdict {
    const { consumer } = reservation;
    // Not `share`: V8 allocates for a number over 2 GiB that a function returns.
    const share = (this.#limit - this.#unspillable) / Math.max(1, this.#spillableConsumers);
    if (
      this.reserved + bytes > this.#limit ||
      (consumer.canSpill && reservation.consumerReserved + bytes > share)
    ) {
      return 'pool';
    }
    this.#add(consumer, bytes);
    return 'granted';
  }

  override overcommit({ consumer }: MemoryReservation, bytes: number): void {
    addReserved(this.reserved, bytes);
    this.#add(consumer, bytes);
  }

  override shrink({ consumer }: MemoryReservation, bytes: number): void {
    this.#add(consumer, -bytes);
  }

  /** Where a consumer has come to the end of its share, nobody else is in its way. */
  override contends(
    _source: RefusalSource,
    consumer: MemoryConsumer,
    bytes: number,
    other: MemoryConsumer,
  ): boolean {
    const held = this.consumers.reservedBy(consumer);
    const overShare = consumer.canSpill && held + bytes > this.share;
    return consumer === other || !overShare;
  }

  override refusalFigures(
    _source: RefusalSource,
    { consumer, consumerReserved: held }: MemoryReservation,
  ): RefusalFigures {
    const { share, reserved } = this;
    return consumer.canSpill && share - held < this.#limit - reserved
      ? { limit: share, measured: held, live: undefined }
      : { limit: this.#limit, measured: reserved, live: undefined };
  }

  override toString(): string {
    return `fair(used: ${formatSize(this.reserved)}, pool_size: ${formatSize(this.#limit)})`;
  }

  #add(consumer: MemoryConsumer, bytes: number): void {
    if (consumer.canSpill) {
      this.#spillable += bytes;
    } else {
      this.#unspillable += bytes;
    }
  }
}
