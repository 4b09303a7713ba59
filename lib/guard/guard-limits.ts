import type { ContainerReading, Readings } from '../counting/readings';
import { formatSize, parseSize, type Size } from '../sizes';
import { AutoLimit } from './auto-limit';
import type { GuardWarning } from './events';
import { type GuardLimit, NO_LIMIT, resolveLimit } from './guard-limit';

/** What {@link GuardLimits} are made of. */
export interface GuardLimitsOptions {
  readonly limit: Size;
  readonly breakerLimit: Size | undefined;
  readonly containerMargin: Size | undefined;
  readonly readings: Readings;
  /** What the machine has, bytes. */
  readonly totalMemory: number;
}

/** The limit of a guard and that of its breaker. Both move with the container where they are `'auto'`. */
export class GuardLimits {
  readonly #options: GuardLimitsOptions;
  readonly #auto: AutoLimit | undefined;
  #limit: GuardLimit;
  #breaker: number | undefined;

  /** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` */
  constructor(options: GuardLimitsOptions) {
    const { limit, readings, containerMargin, totalMemory } = options;
    this.#options = options;
    if (limit === 'auto') {
      this.#auto = new AutoLimit(readings, containerMargin, totalMemory);
      const computed = this.#auto.compute();
      this.#limit = computed ?? NO_LIMIT;
      this.#breaker = this.#breakerOf(computed?.bytes, computed?.margin);
    } else {
      this.#limit = resolveLimit(limit, readings.container(), totalMemory);
      this.#breaker = this.#breakerOf(this.#limit.bytes, 0);
    }
  }

  /** What usage is held to, bytes; `undefined` when there is none. */
  get bytes(): number | undefined {
    return this.#limit.bytes;
  }

  /** Usage over which tasks are shed, bytes; never less than {@link bytes}. */
  get breaker(): number | undefined {
    return this.#breaker;
  }

  /** What a percentage of the limit is taken of where there is none, bytes: the machine's memory. */
  get orWhole(): number {
    return this.bytes ?? this.#options.totalMemory;
  }

  /** Whether they follow the container. */
  get moves(): boolean {
    return this.#auto !== undefined && this.bytes !== undefined;
  }

  /** The arithmetic, in words. */
  get explanation(): string {
    const { bytes, explanation } = this.#limit;
    return this.#breaker === bytes
      ? explanation
      : `${explanation}; tasks are shed over ${formatSize(this.#breaker ?? 0)}`;
  }

  /** What is probably not meant. */
  warnings(): GuardWarning[] {
    const warnings: GuardWarning[] = [];
    if (this.#limit.warning !== undefined) warnings.push(this.#limit.warning);
    const { bytes } = this.#limit;
    const { limit: heap } = this.#options.readings.heap();
    if (this.#auto !== undefined && bytes !== undefined && heap > bytes) {
      warnings.push({
        code: 'ERR_OOM_GUARD_HEAP_LIMIT',
        message:
          `V8 may grow its heap to ${formatSize(heap)}, over the limit of ${formatSize(bytes)}: ` +
          'set --max-old-space-size to what the process can spare for it',
      });
    }
    return warnings;
  }

  /** Computes them again where they move. Whether they have. */
  refresh(): boolean {
    const computed = this.#auto?.compute();
    if (computed === undefined) return false;
    const moved = computed.bytes !== this.#limit.bytes;
    this.#limit = computed;
    this.#breaker = this.#breakerOf(computed.bytes, computed.margin);
    return moved;
  }

  #breakerOf(limit: number | undefined, margin = 0): number | undefined {
    const { breakerLimit, readings, totalMemory } = this.#options;
    const percentOf = ownerOf(readings.container(), totalMemory);
    const wanted =
      breakerLimit === undefined
        ? undefined
        : parseSize(breakerLimit, { name: 'breakerLimit', percentOf });
    // What others have taken lowers an automatic limit under what is in use here already; that alone
    // is no reason to shed.
    return limit === undefined
      ? undefined
      : Math.max(limit, wanted ?? limit + Math.floor(margin / 2));
  }
}

function ownerOf(container: ContainerReading | undefined, totalMemory: number): number {
  return Math.min(container?.limit ?? totalMemory, totalMemory);
}
