import type { UsageLedger } from './usage-ledger';

/** In how many steps a grant ages. More make its age more exact and its cost higher. */
export const GRANT_STEPS = 8;
const SLOTS = GRANT_STEPS + 1;

/**
 * Bytes that were granted and are not yet seen as allocated, by the step of the grant.
 *
 * A wheel of numbers: a grant is added to the slot of the present step and forgotten when the wheel
 * comes round to that slot again, after 8 to 9 steps. Nothing is allocated per grant.
 */
export class PendingGrants {
  readonly #slots: number[] = new Array<number>(SLOTS).fill(0);
  #step = 0;
  #total = 0;
  #aged = 0;

  /** Bytes that count in `step`. */
  total(step: number): number {
    this.#advance(step);
    return this.#total;
  }

  /** Bytes that were forgotten by age, altogether. */
  get aged(): number {
    return this.#aged;
  }

  add(bytes: number, step: number): void {
    this.#advance(step);
    const slot = this.#step % SLOTS;
    this.#slots[slot] = (this.#slots[slot] ?? 0) + bytes;
    this.#total += bytes;
  }

  /** Forgets up to `bytes` that were granted in step `granted`; returns how many. */
  take(granted: number, bytes: number): number {
    if (granted > this.#step || this.#step - granted >= SLOTS) {
      return 0;
    }
    const slot = granted % SLOTS;
    const taken = Math.min(bytes, this.#slots[slot] ?? 0);
    this.#slots[slot] = (this.#slots[slot] ?? 0) - taken;
    this.#total -= taken;
    return taken;
  }

  /** Forgets up to `bytes`, here, in the ledger and in the other wheel that they were added to. */
  retire(
    bytes: number,
    order: 'newest' | 'oldest',
    step: number,
    ledger: UsageLedger,
    other: PendingGrants | undefined,
  ): void {
    this.#advance(step);
    other?.total(step);
    let left = Math.min(bytes, this.#total);
    for (let i = 0; i < SLOTS && left > 0; i++) {
      const granted = this.#step - (order === 'newest' ? i : SLOTS - 1 - i);
      const taken = granted < 0 ? 0 : this.take(granted, left);
      if (taken > 0) {
        ledger.retire(granted, taken, order === 'oldest');
        other?.take(granted, taken);
        left -= taken;
      }
    }
  }

  /** Moves up to `bytes` into another wheel, newest first. */
  moveTo(other: PendingGrants, bytes: number, step: number): void {
    this.#advance(step);
    other.#advance(step);
    let left = Math.min(bytes, this.#total);
    for (let i = 0; i < SLOTS && left > 0 && step >= i; i++) {
      const taken = this.take(step - i, left);
      const slot = (step - i) % SLOTS;
      other.#slots[slot] = (other.#slots[slot] ?? 0) + taken;
      other.#total += taken;
      left -= taken;
    }
  }

  #advance(step: number): void {
    if (step <= this.#step) {
      return;
    }
    const passed = Math.min(step - this.#step, SLOTS);
    for (let i = 1; i <= passed; i++) {
      const slot = (this.#step + i) % SLOTS;
      const aged = this.#slots[slot] ?? 0;
      this.#total -= aged;
      this.#aged += aged;
      this.#slots[slot] = 0;
    }
    this.#step = step;
  }
}
