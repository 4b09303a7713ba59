import type { RefusalSource } from '../errors';
import { formatSize, parseSize, type Size } from '../sizes';
import { addReserved } from './bytes';
import type { GrowVerdict } from './grow-request';
import type { MemoryLimit } from './memory-limit';
import { MemoryPool, type MemoryPoolOptions, type RefusalFigures } from './memory-pool';
import type { MemoryReservation } from './memory-reservation';

/** First come, first served, up to a limit. */
export class GreedyMemoryPool extends MemoryPool {
  override readonly name = 'greedy';
  override readonly memoryLimit: MemoryLimit;
  readonly #limit: number;
  #reserved = 0;

  /**
   * @param limit bytes, or text such as `'512MiB'`
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
   */
  constructor(limit: Size, options?: MemoryPoolOptions) {
    super(options);
    this.#limit = parseSize(limit, { name: 'limit' });
    this.memoryLimit = { kind: 'finite', bytes: this.#limit };
  }

  override get reserved(): number {
    return this.#reserved;
  }

  override requestGrow(_reservation: MemoryReservation, bytes: number): GrowVerdict {
    const total = this.#reserved + bytes;
    if (total > this.#limit) {
      return 'pool';
    }
    this.#reserved = total;
    return 'granted';
  }

  override overcommit(_reservation: MemoryReservation, bytes: number): void {
    this.#reserved = addReserved(this.#reserved, bytes);
  }

  override shrink(_reservation: MemoryReservation, bytes: number): void {
    this.#reserved -= bytes;
  }

  override refusalFigures(_source: RefusalSource): RefusalFigures {
    return { limit: this.#limit, measured: this.#reserved, live: undefined };
  }

  override toString(): string {
    return `greedy(used: ${formatSize(this.#reserved)}, pool_size: ${formatSize(this.#limit)})`;
  }
}
