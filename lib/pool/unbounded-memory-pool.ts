import type { RefusalSource } from '../errors';
import { formatSize } from '../sizes';
import { addReserved } from './bytes';
import type { GrowVerdict } from './grow-request';
import type { MemoryLimit } from './memory-limit';
import { MemoryPool, type RefusalFigures } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';

/** Grants everything and keeps count. */
export class UnboundedMemoryPool extends MemoryPool {
  override readonly name = 'unbounded';
  override readonly memoryLimit: MemoryLimit = { kind: 'infinite' };
  #reserved = 0;

  override get reserved(): number {
    return this.#reserved;
  }

  override requestGrow(_reservation: MemoryReservation, bytes: number): GrowVerdict {
    this.#reserved = addReserved(this.#reserved, bytes);
    return 'granted';
  }

  override overcommit(_reservation: MemoryReservation, bytes: number): void {
    this.#reserved = addReserved(this.#reserved, bytes);
  }

  override shrink(_reservation: MemoryReservation, bytes: number): void {
    this.#reserved -= bytes;
  }

  override refusalFigures(_source: RefusalSource): RefusalFigures {
    return { limit: undefined, measured: this.#reserved, live: undefined };
  }

  override toString(): string {
    return `unbounded(used: ${formatSize(this.#reserved)})`;
  }
}
