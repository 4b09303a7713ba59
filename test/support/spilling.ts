/** For the tests of lib/spill: pools that refuse at will, and rows that can be checked. */
import { existsSync, readdirSync } from 'node:fs';
import {
  type GrowVerdict,
  type MemoryPoolOptions,
  type MemoryReservation,
  UnboundedMemoryPool,
} from '../../lib/pool';

/** Says no whenever `refuse` does. */
export class RefusingPool extends UnboundedMemoryPool {
  refusals = 0;
  readonly #refuse: (bytes: number) => boolean;

  constructor(refuse: (bytes: number) => boolean, options?: MemoryPoolOptions) {
    super(options);
    this.#refuse = refuse;
  }

  override requestGrow(reservation: MemoryReservation, bytes: number): GrowVerdict {
    if (this.#refuse(bytes)) {
      this.refusals += 1;
      return 'pool';
    }
    return super.requestGrow(reservation, bytes);
  }
}

/** What lies in a directory, or would if it existed. */
export function entries(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

/** All batches of an iteration. */
export async function drain<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}
