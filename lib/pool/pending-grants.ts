/** In how many steps a grant ages. More make its age more exact and its cost higher. */
const STEPS = 8;
const SLOTS = STEPS + 1;

/**
 * Bytes that were granted and are not yet seen as allocated, by the time of the grant.
 *
 * A wheel of numbers: a grant is added to the slot of the present and forgotten when the wheel comes
 * round to that slot again, after `ageMs` to `ageMs × 9/8`. Nothing is allocated per grant.
 */
export class PendingGrants {
  readonly #slots: number[] = new Array<number>(SLOTS).fill(0);
  readonly #stepMs: number;
  #step = 0;
  #total = 0;

  /** @param ageMs how long a grant counts, more than 0 */
  constructor(ageMs: number) {
    this.#stepMs = ageMs / STEPS;
  }

  /** How long to wait until something may have been forgotten, ms. */
  get stepMs(): number {
    return this.#stepMs;
  }

  /** Bytes that count at `now`. */
  total(now: number): number {
    this.#advance(now);
    return this.#total;
  }

  add(bytes: number, now: number): void {
    this.#advance(now);
    const slot = this.#step % SLOTS;
    this.#slots[slot] = (this.#slots[slot] ?? 0) + bytes;
    this.#total += bytes;
  }

  /**
   * Forgets up to `bytes`, here and in the wheels of the same age that these grants were added to
   * as well.
   */
  retire(
    bytes: number,
    order: 'newest' | 'oldest',
    now: number,
    mirrors: readonly PendingGrants[],
  ): void {
    this.#advance(now);
    for (const mirror of mirrors) {
      mirror.#advance(now);
    }
    let left = Math.min(bytes, this.#total);
    for (let i = 0; i < SLOTS && left > 0; i++) {
      // The slot after the present one is the oldest.
      const slot = (this.#step + (order === 'newest' ? SLOTS - i : i + 1)) % SLOTS;
      const taken = Math.min(left, this.#slots[slot] ?? 0);
      if (taken > 0) {
        this.#take(slot, taken);
        for (const mirror of mirrors) {
          mirror.#take(slot, taken);
        }
        left -= taken;
      }
    }
  }

  #take(slot: number, bytes: number): void {
    this.#slots[slot] = (this.#slots[slot] ?? 0) - bytes;
    this.#total -= bytes;
  }

  #advance(now: number): void {
    const step = Math.floor(now / this.#stepMs);
    if (step <= this.#step) {
      return;
    }
    const passed = Math.min(step - this.#step, SLOTS);
    for (let i = 1; i <= passed; i++) {
      const slot = (this.#step + i) % SLOTS;
      this.#total -= this.#slots[slot] ?? 0;
      this.#slots[slot] = 0;
    }
    this.#step = step;
  }
}
