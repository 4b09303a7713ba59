import { formatSize } from '../sizes';
import type { GuardAdvisory } from './events';

const INTERVAL_MS = 60_000;

/**
 * Says, at most once a minute, that RSS is over the limit while usage is not. Nothing is ever
 * enforced on RSS: it stays high after memory was freed.
 */
export class RssAdvisory {
  readonly #limit: number;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The advisory that is due, if one is. Bytes, and milliseconds of a monotonic clock. */
  sample(rss: number, usage: number, now: number): GuardAdvisory | undefined {
    const limit = this.#limit;
    if (rss <= limit || usage > limit || now - this.#lastAt < INTERVAL_MS) {
      return undefined;
    }
    this.#lastAt = now;
    const message =
      `RSS of ${formatSize(rss)} is over the limit of ${formatSize(limit)} while usage is ` +
      `${formatSize(usage)}: the rest was freed and is kept by allocators, or is not counted`;
    return { rss, usage, limit, message };
  }
}
