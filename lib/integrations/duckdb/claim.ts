import { isResourcesExhausted } from '../../errors';
import {
  MemoryConsumer,
  type MemoryPool,
  type MemoryReservation,
  type WaitOptions,
} from '../../pool';

/** Less than this above the floor is not worth the shares that a consumer more takes from others. */
const LEAST_EXCESS = 8 * 2 ** 20;
/**
 * What a database holds, in the books of a pool. Up to its floor it cannot be made to spill: others
 * have to yield. What it holds above that is a consumer of its own, which can, and which is only
 * there while there is something: it would lower the shares of the others.
 */
export class DuckDBClaim {
  readonly #pool: MemoryPool;
  readonly #held: MemoryReservation;
  readonly #above: MemoryConsumer;
  #excess: MemoryReservation | undefined;
  #growing: Promise<boolean> | undefined;

  /** @param spill lowers the limit by so many bytes */
  constructor(name: string, pool: MemoryPool, spill: (bytes: number) => Promise<void>) {
    this.#pool = pool;
    this.#held = new MemoryConsumer(name).register(pool);
    this.#above = new MemoryConsumer(`${name} above its floor`, { spill });
  }

  /** Whether others are being asked to yield. */
  get claiming(): boolean {
    return this.#growing !== undefined;
  }

  /** Bytes. */
  get reserved(): number {
    return this.#held.size + (this.#excess?.size ?? 0);
  }

  /**
   * Books what the database uses now. It exists already, so nobody is asked.
   *
   * @param keep what stays booked below the floor though it is not in use, bytes
   */
  book(used: number, floor: number, keep: number): void {
    let below = Math.max(Math.min(used, floor), Math.min(keep, this.#held.size));
    let above = Math.max(0, used - below);
    if (above < LEAST_EXCESS) {
      below += above;
      above = 0;
    }
    moveTo(this.#held, below);
    if (above > 0) {
      this.#excess ??= this.#above.register(this.#pool);
      moveTo(this.#excess, above);
    } else {
      this.#excess?.close();
      this.#excess = undefined;
    }
  }

  /**
   * Reserves the floor, of which `used` exists. Others are made to spill for it. False when they
   * cannot yield as much, within the deadline if there is one.
   *
   * @throws the reason of a signal that has aborted (rejects with it)
   */
  async claim(floor: number, used: number, wait: WaitOptions = {}): Promise<boolean> {
    // One at a time: each would ask for what is missing.
    while (this.#growing !== undefined) await this.#growing;
    const missing = floor - this.#held.size;
    if (missing <= 0) return true;
    if (this.#held.closed) return false;
    const existing = Math.max(0, Math.min(missing, used - this.#held.size));
    const growing = this.#held.grow(missing, { ...wait, alreadyAllocated: existing }).then(
      () => true,
      (error: unknown) => {
        if (isResourcesExhausted(error) || this.#held.closed) return false;
        throw error;
      },
    );
    // Others only wait for its end.
    this.#growing = growing.catch(() => false);
    try {
      const granted = await growing;
      // It counts as reserved, not as a grant that is about to be allocated: the limit, which follows
      // those, would fall because of it.
      if (granted && !this.#held.closed) this.#held.allocated(missing - existing);
      return granted;
    } finally {
      this.#growing = undefined;
      wait.signal?.throwIfAborted();
    }
  }

  /** Has others spill until there are `bytes` of room, and leaves them free. Never rejects. */
  async makeRoom(bytes: number): Promise<void> {
    if (this.#growing !== undefined) return;
    const growing = this.#held.grow(bytes).then(
      () => {
        // It may have been closed meanwhile, or booked anew.
        if (!this.#held.closed) this.#held.shrink(Math.min(bytes, this.#held.size));
        return true;
      },
      () => false,
    );
    this.#growing = growing;
    await growing;
    this.#growing = undefined;
  }

  close(): void {
    this.#held.close();
    this.#excess?.close();
    this.#excess = undefined;
  }
}

function moveTo(reservation: MemoryReservation, bytes: number): void {
  const delta = bytes - reservation.size;
  if (delta > 0) reservation.overcommit(delta, { alreadyAllocated: delta });
  else if (delta < 0) reservation.shrink(-delta);
}
