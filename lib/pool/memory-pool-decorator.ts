import { ArgumentTypeError, type RefusalSource } from '../errors';
import type { ConsumerRegistry } from './consumer-registry';
import type { GrowVerdict } from './grow-request';
import type { MemoryConsumer } from './memory-consumer';
import type { MemoryLimit } from './memory-limit';
import { MemoryPool, type MemoryPoolOptions, type RefusalFigures } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';

/**
 * A pool around another one. Everything passes through unchanged, limit and description too; extend
 * it and override what is to be different.
 */
export abstract class MemoryPoolDecorator extends MemoryPool {
  protected readonly inner: MemoryPool;

  /**
   * @param options what is not given is taken from the inner pool
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when `inner` is no pool
   */
  constructor(inner: MemoryPool, options: MemoryPoolOptions = {}) {
    // Not instanceof: it may come from another copy of this package.
    if (typeof inner?.requestGrow !== 'function') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'inner pool',
        inner,
        'a MemoryPool',
      );
    }
    super({
      observer: options.observer ?? inner.observer,
      clock: options.clock ?? inner.clock,
      delay: options.delay ?? inner.delay,
      spillExemption: options.spillExemption ?? inner.spillExemption,
    });
    this.inner = inner;
  }

  override get reserved(): number {
    return this.inner.reserved;
  }

  override get totalReserved(): number {
    return this.inner.totalReserved;
  }

  override get memoryLimit(): MemoryLimit {
    return this.inner.memoryLimit;
  }

  override get consumers(): ConsumerRegistry {
    return this.inner.consumers;
  }

  override memoryLimitFor(consumer: MemoryConsumer): MemoryLimit {
    return this.inner.memoryLimitFor(consumer);
  }

  override toString(): string {
    return this.inner.toString();
  }

  override register(consumer: MemoryConsumer): void {
    this.inner.register(consumer);
  }

  override unregister(consumer: MemoryConsumer): void {
    this.inner.unregister(consumer);
  }

  override requestGrow(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): GrowVerdict {
    return this.inner.requestGrow(reservation, bytes, alreadyAllocated);
  }

  override overcommit(
    reservation: MemoryReservation,
    bytes: number,
    alreadyAllocated: number,
  ): void {
    this.inner.overcommit(reservation, bytes, alreadyAllocated);
  }

  override shrink(reservation: MemoryReservation, bytes: number): void {
    this.inner.shrink(reservation, bytes);
  }

  override allocated(reservation: MemoryReservation, bytes: number): void {
    this.inner.allocated(reservation, bytes);
  }

  override moved(from: MemoryReservation, to: MemoryReservation, bytes: number): void {
    this.inner.moved(from, to, bytes);
  }

  override refresh(): void {
    this.inner.refresh();
  }

  override contends(
    source: RefusalSource,
    consumer: MemoryConsumer,
    bytes: number,
    other: MemoryConsumer,
  ): boolean {
    return this.inner.contends(source, consumer, bytes, other);
  }

  override refusalFigures(source: RefusalSource, reservation: MemoryReservation): RefusalFigures {
    return this.inner.refusalFigures(source, reservation);
  }
}
