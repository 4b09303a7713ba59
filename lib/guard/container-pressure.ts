import type { Readings } from '../counting/readings';
import { marginOf } from '../pool/container-headroom';
import type { Size } from '../sizes';

/** How old a reading of the container may be, ms. */
const MAX_AGE_MS = 10;

/**
 * Tells when a container is so full that the kernel may kill within milliseconds: more than half of the
 * margin under its limit is used up by anonymous memory. Page cache does not count.
 */
export class ContainerPressure {
  readonly #read: Readings['container'];
  readonly #margin: Size | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #urgent = false;

  constructor(read: Readings['container'], margin: Size | undefined) {
    this.#read = read;
    this.#margin = margin;
  }

  /** @param now ms, monotonic */
  urgent(now: number): boolean {
    if (now - this.#readAt >= MAX_AGE_MS) {
      this.#readAt = now;
      const { limit, anon = 0 } = this.#read() ?? {};
      this.#urgent = limit !== undefined && anon > limit - marginOf(this.#margin, limit) / 2;
    }
    return this.#urgent;
  }
}
