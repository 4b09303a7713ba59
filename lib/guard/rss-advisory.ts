import { formatSize } from '../sizes';
import type { GuardAdvisory } from './events';

const INTERVAL_MS = 60_000;

/**
 * Says, at most once a minute, that RSS is over the limit while usage is not. Nothing is ever
 * enforced on RSS: it stays high after memory was freed.
 */
export class RssAdvisory {
  readonly #explain: (() => string) | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  /** @param explain what most of resident memory is beside usage; milliseconds, asked when it is due */
  constructor(explain: (() => string) | undefined) {
    this.#explain = explain;
  }

  /** The advisory that is due, if one is. Bytes, and milliseconds of a monotonic clock. */
  sample(
    { rss, usage, limit }: { rss: number; usage: number; limit: number },
    now: number,
  ): GuardAdvisory | undefined {
    if (rss <= limit || usage > limit || now - this.#lastAt < INTERVAL_MS) {
      return undefined;
    }
    this.#lastAt = now;
    const rest =
      this.#explain?.() ?? 'the rest was freed and is kept by allocators, or is not counted';
    const message =
      `RSS of ${formatSize(rss)} is over the limit of ${formatSize(limit)} while usage is ` +
      `${formatSize(usage)}: ${rest}`;
    return { rss, usage, limit, message };
  }
}
