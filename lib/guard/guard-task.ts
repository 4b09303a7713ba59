import { type BatchBreaker, type GuardBatchesOptions, guardBatches } from '../breaker';
import { shedError } from '../breaker/guard-batches';
import { type ResourcesExhaustedDetails, StateError } from '../errors';
import {
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryPool,
  type MemoryReservation,
} from '../pool';

/** One running task as `guard.tasks()` lists it. */
export interface TaskSummary {
  readonly id: number;
  readonly name: string;
  /** Milliseconds since it started. */
  readonly ageMs: number;
  /** Bytes that its reservations hold, overcommit included. */
  readonly reserved: number;
}

/** What a task gets from its guard. */
export interface TaskContext {
  readonly pool: MemoryPool;
  readonly clock: () => number;
  /** Checked between batches; `undefined` when nothing is enforced or observed. */
  breakerFor(task: GuardTask): BatchBreaker | undefined;
  /** Who holds what, for the error of a task that is shed. */
  holders(): Pick<ResourcesExhaustedDetails, 'reserved' | 'live' | 'consumers'>;
}

const SWEEP_MIN = 64;
let lastId = 0;

/** A piece of work under a guard. Made by `guard.run`; what it reserved ends with it. */
export class GuardTask {
  readonly id: number;
  readonly name: string;
  readonly #context: TaskContext;
  readonly #startedAt: number;
  readonly #reservations = new Set<MemoryReservation>();
  #sweepAt = SWEEP_MIN;
  #ended = false;

  /** Use `guard.run`. */
  constructor(name: string, context: TaskContext) {
    lastId += 1;
    this.id = lastId;
    this.name = name;
    this.#context = context;
    this.#startedAt = context.clock();
  }

  /** Bytes that its reservations hold, overcommit included. */
  get reserved(): number {
    let bytes = 0;
    for (const reservation of this.#reservations) {
      bytes += reservation.size;
    }
    return bytes;
  }

  /** Whether it has ended. */
  get ended(): boolean {
    return this.#ended;
  }

  /**
   * An empty reservation of a new consumer, named after task and `name`. It is closed when the task
   * ends, in whatever way. Names may repeat.
   *
   * @param options `spill` makes room when memory is short; `in: 'heap'` for objects in V8's heap
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
   * @throws StateError `ERR_OOM_GUARD_TASK_ENDED`
   */
  reserve(name: string, options?: MemoryConsumerOptions): MemoryReservation {
    this.#checkRunning();
    // The name as given is checked before it is put together with the task's.
    const qualified = typeof name === 'string' && name !== '' ? `${this.name}/${name}` : name;
    const reservation = new MemoryConsumer(qualified, options).register(this.#context.pool);
    if (this.#reservations.size >= this.#sweepAt) {
      this.#forgetClosed();
    }
    this.#reservations.add(reservation);
    return reservation;
  }

  /**
   * Passes batches through untouched and looks at the breaker between them. When it has tripped,
   * the source is closed and the iteration rejects with `ResourcesExhaustedError`.
   *
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when `source` is not iterable
   * @throws StateError `ERR_OOM_GUARD_TASK_ENDED`
   */
  batches<T>(
    source: AsyncIterable<T> | Iterable<T | PromiseLike<T>>,
  ): AsyncIterableIterator<T> & AsyncDisposable {
    this.#checkRunning();
    return guardBatches<T>(source, this.#watch());
  }

  /**
   * Looks at the breaker, for code between batches.
   *
   * @throws ResourcesExhaustedError when it has tripped for this task
   * @throws StateError `ERR_OOM_GUARD_TASK_ENDED`
   */
  checkpoint(): void {
    this.#checkRunning();
    const watch = this.#watch();
    if (watch.breaker.check()) throw shedError(watch);
  }

  /** Closes its reservations. For the guard. */
  end(): void {
    this.#ended = true;
    for (const reservation of this.#reservations) {
      reservation.close();
    }
    this.#reservations.clear();
  }

  /** How it stands at `now`, on the guard's clock. */
  summary(now: number): TaskSummary {
    const { id, name, reserved } = this;
    return { id, name, ageMs: now - this.#startedAt, reserved };
  }

  #watch(): GuardBatchesOptions {
    return {
      breaker: this.#context.breakerFor(this) ?? NEVER,
      name: this.name,
      describe: () => this.#context.holders(),
    };
  }

  /** Seldom enough that a task with many reservations does not look at all of them each time. */
  #forgetClosed(): void {
    for (const reservation of this.#reservations) {
      if (reservation.closed) {
        this.#reservations.delete(reservation);
      }
    }
    this.#sweepAt = Math.max(SWEEP_MIN, 2 * this.#reservations.size);
  }

  #checkRunning(): void {
    if (this.#ended) {
      throw new StateError('ERR_OOM_GUARD_TASK_ENDED', `The task ${this.name} has ended`);
    }
  }
}

const NEVER: BatchBreaker = {
  check: () => false,
  limit: Number.POSITIVE_INFINITY,
  lastUsage: 0,
};
