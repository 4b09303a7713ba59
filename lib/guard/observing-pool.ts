import type { RefusalSource } from '../errors';
import {
  type ConsumerRegistry,
  type GrowVerdict,
  type MemoryConsumer,
  type MemoryLimit,
  MemoryPool,
  type MemoryReservation,
  type RefusalFigures,
} from '../pool';

/**
 * Grants whatever the pool it wraps would refuse and tells of it: `mode: 'observe'`. What was
 * granted against its advice is booked there as overcommit.
 */
export class ObservingPool extends MemoryPool {
  override readonly name = 'observing';
  readonly #inner: MemoryPool;

  constructor(inner: MemoryPool) {
    super({ observer: inner.observer, clock: inner.clock });
    this.#inner = inner;
  }

  override get reserved(): number {
    return this.#inner.reserved;
  }

  override get memoryLimit(): MemoryLimit {
    return this.#inner.memoryLimit;
  }

  override get consumers(): ConsumerRegistry {
    return this.#inner.consumers;
  }

  override toString(): string {
    return this.#inner.toString();
  }

  override register(consumer: MemoryConsumer): void {
    this.#inner.register(consumer);
  }

  override unregister(consumer: MemoryConsumer): void {
    this.#inner.unregister(consumer);
  }

  override requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict {
    const verdict = this.#inner.requestGrow(reservation, bytes, alreadyAllocated);
    if (verdict !== 'granted') {
      this.#inner.overcommit(reservation, bytes, alreadyAllocated);
      this.observer?.refused(verdict, reservation, bytes);
    }
    return 'granted';
  }

  override overcommit(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): void {
    this.#inner.overcommit(reservation, bytes, alreadyAllocated);
  }

  override shrink(reservation: MemoryReservation, bytes: number): void {
    this.#inner.shrink(reservation, bytes);
  }

  override allocated(reservation: MemoryReservation, bytes: number): void {
    this.#inner.allocated(reservation, bytes);
  }

  override refusalFigures(source: RefusalSource, reservation: MemoryReservation): RefusalFigures {
    return this.#inner.refusalFigures(source, reservation);
  }
}
