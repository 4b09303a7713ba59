/** Less than this was not worth a collection, bytes. */
const LEAST_FREED = 2 ** 20;
/** Growth that may be garbage again, bytes. */
const GROWTH = 8 * 2 ** 20;
/** For how long a collection that freed nothing says that there is nothing, ms. */
const HOLDS_MS = 5000;

/** Remembers that a collection has freed nothing, until there is reason to think otherwise. */
export class FutileReclaim {
  #usage = Number.POSITIVE_INFINITY;
  #at = Number.NEGATIVE_INFINITY;

  /** @param usage bytes @param now ms, monotonic */
  worthTrying(usage: number, now: number): boolean {
    return now - this.#at >= HOLDS_MS || usage - this.#usage >= GROWTH;
  }

  /** It was tried. */
  tried(before: number, after: number, now: number): void {
    const futile = before - after < LEAST_FREED;
    this.#usage = after;
    this.#at = futile ? now : Number.NEGATIVE_INFINITY;
  }
}
