import { type BatchBreaker, type GuardBatchesOptions, guardBatches } from '../breaker';
import { StateError } from '../errors';
import {
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryPool,
  type MemoryReservation,
} from '../pool';

/** `shed`: it was chosen to fail, and has not ended yet. */
export type TaskState = 'running' | 'shed';

/** One running task as `guard.tasks()` lists it. */
export interface TaskSummary {
  readonly id: number;
  readonly name: string;
  /** Milliseconds since it started. */
  readonly ageMs: number;
  /** Bytes that its reservations hold, overcommit included. */
  readonly reserved: number;
  /** What it holds without having reserved it, as far as that is known: DuckDB's queries. Bytes. */
  readonly attributed: number;
  /** The most that its reservations held whenever somebody looked, bytes. */
  readonly peak: number;
  readonly state: TaskState;
  /** The task inside which it was started, if it was. */
  readonly parent: number | undefined;
}

/** What a task gets from its guard. */
export interface TaskContext {
  readonly pool: MemoryPool;
  readonly clock: () => number;
  /** Checked between batches; `undefined` when nothing is enforced or observed. */
  breakerFor(task: GuardTask): BatchBreaker | undefined;
}

const SWEEP_MIN = 64;
let lastId = 0;

/** A piece of work under a guard. Made by `guard.run`; what it reserved ends with it. */
export class GuardTask {
  readonly id: number;
  readonly name: string;
  /** The task inside which this one was started. */
  readonly parent: GuardTask | undefined;
  readonly #context: TaskContext;
  readonly #startedAt: number;
  readonly #reservations = new Set<MemoryReservation>();
  readonly #children = new Set<GuardTask>();
  readonly #attributed = new Set<() => number>();
  readonly #watch: GuardBatchesOptions;
  #controller: AbortController | undefined;
  #sweepAt = SWEEP_MIN;
  #peak = 0;
  #error: unknown;
  #ended = false;

  /** Use `guard.run`. */
  constructor(name: string, context: TaskContext, parent?: GuardTask) {
    lastId += 1;
    this.id = lastId;
    this.name = name;
    this.parent = parent;
    this.#context = context;
    this.#startedAt = context.clock();
    this.#watch = { breaker: context.breakerFor(this) ?? NEVER, name };
    parent?.adopt(this);
  }

  /** Bytes that its reservations hold, overcommit included. */
  get reserved(): number {
    let bytes = 0;
    for (const reservation of this.#reservations) {
      bytes += reservation.size;
    }
    this.#peak = Math.max(this.#peak, bytes);
    return bytes;
  }

  /** Bytes that it holds without having reserved them, as far as that is known. */
  get attributed(): number {
    let bytes = 0;
    for (const read of this.#attributed) {
      // It decides who is shed: what it cannot tell must not keep that from being decided.
      try {
        bytes += read() || 0;
      } catch {
        bytes += 0;
      }
    }
    return bytes;
  }

  /** Whether it has ended. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Whether it was chosen to fail. */
  get shed(): boolean {
    return this.#error !== undefined;
  }

  /** The `ResourcesExhaustedError` that it fails with; `undefined` while it was not shed. */
  get error(): unknown {
    return this.#error;
  }

  /**
   * Aborts with the `ResourcesExhaustedError` when the task is shed, so that work inside a native call
   * can be interrupted. It does not abort when the task ends.
   */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.shed) {
      this.#controller.abort(this.#error);
    }
    return this.#controller.signal;
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
    // Once it is shed it waits for nothing any more.
    reservation.cancelWith = () => this.signal;
    if (this.#reservations.size >= this.#sweepAt) {
      this.#forgetClosed();
    }
    this.#reservations.add(reservation);
    return reservation;
  }

  /**
   * Passes batches through untouched and looks at the breaker between them. When the task is shed, the
   * source is closed and the iteration rejects with `ResourcesExhaustedError`.
   *
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when `source` is not iterable
   * @throws StateError `ERR_OOM_GUARD_TASK_ENDED`
   */
  batches<T>(
    source: AsyncIterable<T> | Iterable<T | PromiseLike<T>>,
  ): AsyncIterableIterator<T> & AsyncDisposable {
    this.#checkRunning();
    return guardBatches<T>(source, this.#watch);
  }

  /**
   * Looks at the breaker, for code between batches. When somebody has to go, that is decided a little
   * later, and the checkpoint after that throws.
   *
   * @throws ResourcesExhaustedError when this task was shed
   * @throws StateError `ERR_OOM_GUARD_TASK_ENDED`
   */
  checkpoint(): void {
    this.#checkRunning();
    if (this.#watch.breaker.check() === true) {
      throw this.#error;
    }
  }

  /**
   * Has the task held to account for what it holds without having reserved it, such as the memory of a
   * query that it runs, when it is decided who is shed. Returns what takes it back.
   *
   * @param read bytes, called when somebody looks
   */
  attribute(read: () => number): () => void {
    const entry = () => read();
    this.#attributed.add(entry);
    return () => {
      this.#attributed.delete(entry);
    };
  }

  /** What streams and iterators of this task look at between batches. */
  get watch(): GuardBatchesOptions {
    return this.#watch;
  }

  /** Fails it, and the tasks inside it. For the guard. */
  fail(error: unknown): void {
    if (this.#ended || this.shed) {
      return;
    }
    this.#error = error;
    this.#controller?.abort(error);
    for (const child of this.#children) {
      child.fail(error);
    }
  }

  /** Closes its reservations. For the guard. */
  end(): void {
    this.#ended = true;
    for (const reservation of this.#reservations) {
      reservation.close();
    }
    this.#reservations.clear();
    this.parent?.disown(this);
  }

  /** A task was started inside this one. For the guard. */
  adopt(child: GuardTask): void {
    if (this.#ended) {
      return;
    }
    this.#children.add(child);
    if (this.shed) {
      child.fail(this.#error);
    }
  }

  /** It has ended. For the guard. */
  disown(child: GuardTask): void {
    this.#children.delete(child);
  }

  /** How it stands at `now`, on the guard's clock. */
  summary(now: number): TaskSummary {
    const { id, name, reserved, attributed, parent } = this;
    return {
      id,
      name,
      ageMs: now - this.#startedAt,
      reserved,
      attributed,
      peak: this.#peak,
      state: this.shed ? 'shed' : 'running',
      parent: parent?.id,
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

/** Where nothing is shed. */
export const NEVER: BatchBreaker = {
  check: () => false,
  limit: Number.POSITIVE_INFINITY,
  lastUsage: 0,
};
