import type { ContainerReading, Readings } from '../counting/readings';
import { marginOf } from '../pool/container-headroom';
import { formatSize, type Size } from '../sizes';
import type { GuardLimit } from './guard-limit';

/** How many readings the least of what is not counted is taken of. */
const READINGS = 60;
/** A guard whose neighbours have taken everything still has this share of the container. */
const LEAST_SHARE = 0.05;

/**
 * `limit: 'auto'`: what a container leaves this process. Several guards in one container share it by
 * what the kernel says that the others hold.
 */
export class AutoLimit {
  readonly #readings: Pick<Readings, 'container' | 'rss' | 'usage'>;
  readonly #margin: Size | undefined;
  readonly #totalMemory: number;
  readonly #uncounted: number[] = [];

  /** @param totalMemory what the machine has, bytes */
  constructor(
    readings: Pick<Readings, 'container' | 'rss' | 'usage'>,
    margin: Size | undefined,
    totalMemory: number,
  ) {
    this.#readings = readings;
    this.#margin = margin;
    this.#totalMemory = totalMemory;
  }

  /**
   * The limit as things stand, bytes, and how it comes about; `undefined` without a container, or with
   * one that may have more than the machine has.
   */
  compute(): (GuardLimit & { readonly bytes: number; readonly margin: number }) | undefined {
    const container = this.#readings.container();
    const limit = container?.limit;
    return container === undefined || limit === undefined || limit > this.#totalMemory
      ? undefined
      : this.#within(container, limit);
  }

  #within(container: ContainerReading, limit: number) {
    const { anon } = this.#readings.rss();
    const margin = marginOf(this.#margin, limit);
    const others = Math.max(0, container.anon - anon);
    const uncounted = this.#leastUncounted(Math.min(anon, container.anon));
    const bytes = Math.max(
      1,
      Math.floor(limit * LEAST_SHARE),
      Math.floor(limit - margin - others - uncounted),
    );
    return {
      bytes,
      margin,
      explanation:
        `auto = ${formatSize(bytes)} (the container's limit of ${formatSize(limit)} - ` +
        `${formatSize(others)} of other processes - ${formatSize(uncounted)} that is not counted - ` +
        `${formatSize(margin)} margin)`,
      warning: undefined,
    };
  }

  /**
   * What the kernel charges for this process beyond usage has slack in it, which can be given back. The
   * least of it that was seen lately has least.
   */
  #leastUncounted(anon: number): number {
    this.#uncounted.push(Math.max(0, anon - this.#readings.usage()));
    if (this.#uncounted.length > READINGS) this.#uncounted.shift();
    return Math.min(...this.#uncounted);
  }
}
