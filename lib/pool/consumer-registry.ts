import type { ConsumerSummary } from '../errors';
import type { MemoryConsumer } from './memory-consumer';

/** What one consumer holds in one pool, over all its reservations. Sizes in bytes. */
export class ConsumerAccount {
  readonly consumer: MemoryConsumer;
  /** Open reservations. */
  reservations = 0;
  reserved = 0;
  overcommitted = 0;
  /** The part of `overcommitted` that its spill callback was exempted for. */
  exempted = 0;
  peak = 0;

  constructor(consumer: MemoryConsumer) {
    this.consumer = consumer;
  }

  /** Adds bytes, of which so many were taken without asking. */
  add(bytes: number, overcommitted: number): void {
    this.reserved += bytes;
    this.overcommitted += overcommitted;
    if (this.reserved > this.peak) {
      this.peak = this.reserved;
    }
  }

  /** Takes bytes off, `repaid` of which were overcommitted. */
  subtract(bytes: number, repaid: number): void {
    this.reserved -= bytes;
    this.overcommitted -= repaid;
    this.exempted -= Math.min(this.exempted, repaid);
  }

  summary(): ConsumerSummary {
    const { id, name, canSpill, in: location } = this.consumer;
    const { reserved, overcommitted, peak } = this;
    return { id, name, reserved, overcommitted, peak, canSpill, in: location };
  }
}

/** The consumers that have an open reservation in a pool. */
export class ConsumerRegistry {
  readonly #accounts = new Map<number, ConsumerAccount>();

  /** How many consumers there are. */
  get size(): number {
    return this.#accounts.size;
  }

  /** Opens the consumer's account, or its next reservation. */
  open(consumer: MemoryConsumer): ConsumerAccount {
    let account = this.#accounts.get(consumer.id);
    if (account === undefined) {
      account = new ConsumerAccount(consumer);
      this.#accounts.set(consumer.id, account);
    }
    account.reservations += 1;
    return account;
  }

  /** Takes one reservation off; true when it was the consumer's last. */
  close(account: ConsumerAccount): boolean {
    account.reservations -= 1;
    if (account.reservations > 0) {
      return false;
    }
    this.#accounts.delete(account.consumer.id);
    return true;
  }

  /** What the consumer holds, bytes; 0 when it is not registered. */
  reservedBy(consumer: MemoryConsumer): number {
    return this.#accounts.get(consumer.id)?.reserved ?? 0;
  }

  /** All consumers, largest first. */
  all(): ConsumerSummary[] {
    return [...this.#accounts.values()]
      .sort((a, b) => b.reserved - a.reserved)
      .map((account) => account.summary());
  }

  /** The `count` consumers that hold the most, largest first; those that hold nothing are left out. */
  largest(count = 5): ConsumerSummary[] {
    return this.all()
      .filter(({ reserved }) => reserved > 0)
      .slice(0, count);
  }

  /**
   * The largest consumer that holds something, has a spill callback, is not in `except` and passes
   * `wanted`.
   */
  largestSpillable(
    except: ReadonlySet<ConsumerAccount>,
    wanted: (consumer: MemoryConsumer) => boolean,
  ): ConsumerAccount | undefined {
    let largest: ConsumerAccount | undefined;
    for (const account of this.#accounts.values()) {
      if (
        account.consumer.spill !== undefined &&
        account.reserved > (largest?.reserved ?? 0) &&
        !except.has(account) &&
        wanted(account.consumer)
      ) {
        largest = account;
      }
    }
    return largest;
  }
}
