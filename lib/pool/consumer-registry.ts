import type { ConsumerSummary } from '../errors';
import type { MemoryConsumer } from './memory-consumer';

/** What one consumer holds in one pool, over all its reservations. Sizes in bytes. */
export class ConsumerAccount {
  readonly consumer: MemoryConsumer;
  /** Open reservations. */
  reservations = 0;
  reserved = 0;
  overcommitted = 0;
  peak = 0;

  constructor(consumer: MemoryConsumer) {
    this.consumer = consumer;
  }

  add(bytes: number): void {
    this.reserved += bytes;
    if (this.reserved > this.peak) {
      this.peak = this.reserved;
    }
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

  /** The `count` consumers that hold the most, largest first; those that hold nothing are left out. */
  largest(count = 5): ConsumerSummary[] {
    return [...this.#accounts.values()]
      .filter((account) => account.reserved > 0)
      .sort((a, b) => b.reserved - a.reserved)
      .slice(0, count)
      .map((account) => account.summary());
  }

  /** The largest consumer that holds something, can spill and is not in `except`. */
  largestSpillable(except: ReadonlySet<ConsumerAccount>): ConsumerAccount | undefined {
    let largest: ConsumerAccount | undefined;
    for (const account of this.#accounts.values()) {
      if (
        account.consumer.canSpill &&
        account.reserved > (largest?.reserved ?? 0) &&
        !except.has(account)
      ) {
        largest = account;
      }
    }
    return largest;
  }
}
