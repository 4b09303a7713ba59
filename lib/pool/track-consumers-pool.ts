import { ArgumentRangeError, type ConsumerSummary, ResourcesExhaustedError } from '../errors';
import { formatSize } from '../sizes';
import type { GrowRequest } from './grow-request';
import type { MemoryPool } from './memory-pool';
import { MemoryPoolDecorator } from './memory-pool-decorator';

const DEFAULT_TOP = 5;

/**
 * Tells who holds the most. Every pool of this package tracks its consumers and names the five
 * largest in its errors; this one, known from DataFusion, names as many as it is told.
 */
export class TrackConsumersPool extends MemoryPoolDecorator {
  override readonly name = 'track_consumers';
  readonly #top: number;

  /**
   * @param inner decides
   * @param top how many consumers reports and errors name, a whole number over 0; default 5
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when `inner` is no pool
   * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for `top`
   */
  constructor(inner: MemoryPool, top: number = DEFAULT_TOP) {
    super(inner);
    checkCount(top);
    this.#top = top;
  }

  /** All registered consumers, those that hold nothing too, largest first. */
  metrics(): ConsumerSummary[] {
    return this.consumers.all();
  }

  /**
   * The largest consumers in words, one a line: `name#id(can spill: yes) consumed 2 MiB, peak 3 MiB`.
   *
   * @param count a whole number over 0; default what the pool was made with
   * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
   */
  reportTop(count: number = this.#top): string {
    checkCount(count);
    return this.consumers
      .all()
      .slice(0, count)
      .map(
        ({ name, id, canSpill, reserved, peak }) =>
          `${name}#${id}(can spill: ${canSpill ? 'yes' : 'no'}) ` +
          `consumed ${formatSize(reserved)}, peak ${formatSize(peak)}`,
      )
      .join('\n');
  }

  override mustQueue(): boolean {
    return this.inner.mustQueue();
  }

  override standsInLine(
    ...args: Parameters<MemoryPool['standsInLine']>
  ): ReturnType<MemoryPool['standsInLine']> {
    return this.inner.standsInLine(...args);
  }

  override released(): void {
    this.inner.released();
  }

  override async makeRoom(request: GrowRequest): Promise<void> {
    try {
      await this.inner.makeRoom(request);
    } catch (error) {
      if (!(error instanceof ResourcesExhaustedError)) {
        throw error;
      }
      throw new ResourcesExhaustedError({
        ...error,
        cause: error.cause,
        consumers: this.consumers.largest(this.#top),
      });
    }
  }
}

function checkCount(count: unknown): void {
  if (!Number.isSafeInteger(count) || (count as number) < 1) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'number of consumers',
      count,
      'a whole number over 0',
    );
  }
}
