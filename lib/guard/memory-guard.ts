import { AsyncLocalStorage } from 'node:async_hooks';
import type { BatchBreaker, GuardBatchesOptions, MemoryBreaker } from '../breaker';
import type { Readings } from '../counting/readings';
import {
  ArgumentTypeError,
  isResourcesExhausted,
  type RefusalSource,
  ResourcesExhaustedError,
  StateError,
  withCause,
} from '../errors';
import type { LeakReport, MemoryPool, MemoryReservation, SpillReport, UsageLedger } from '../pool';
import { warnOfLeak } from '../pool/leaks';
import { type CacheReclaim, MemoryReclaimer, type ReclaimReport } from '../reclaim';
import { Admission, type AdmissionTicket } from './admission';
import type { AdmitRequest } from './admission-options';
import { BeforeShedding } from './before-shedding';
import { traceTask } from './channels';
import type { GuardWarning } from './events';
import { GuardEmitter } from './guard-emitter';
import type { GuardLimits } from './guard-limits';
import type { GuardDependencies, GuardMode, MemoryGuardOptions } from './guard-options';
import { type GuardPool, makeGuardPool, shareKey } from './guard-pool';
import { makeShedder } from './guard-shedder';
import { GuardCounters, type GuardStats } from './guard-stats';
import { GuardTask, NEVER, type TaskContext, type TaskSummary } from './guard-task';
import { RssAdvisory } from './rss-advisory';
import type { Shedder } from './shedder';
import type { Pressure } from './victim';

const SAMPLE_MS = 1000;
/** While tasks run: a build that yields no batch is to be seen as well. */
const WATCH_MS = 10;
const REFRESH_LIMIT_MS = 250;
const DEFAULT_PENDING_MS = 1000;

/** The task that code runs in, and those around it, which may be of other guards. */
interface Running {
  readonly task: GuardTask;
  readonly around: Running | undefined;
}

const running = new AsyncLocalStorage<Running>();

/** What the factory has found out before there is a guard. */
export interface GuardSetup {
  readonly mode: GuardMode;
  readonly limits: GuardLimits;
  readonly warnings: readonly GuardWarning[];
}

/**
 * Runs tasks under one memory limit: wires readings, pool, breaker and reclaim together. Made by
 * `createMemoryGuard`.
 */
export class MemoryGuard extends GuardEmitter {
  /** `track`: nothing is enforced, because there is no limit. */
  readonly mode: GuardMode;
  /** What its tasks reserve from. */
  readonly pool: MemoryPool;
  readonly #clock: () => number;
  readonly #every: GuardDependencies['every'];
  readonly #limits: GuardLimits;
  readonly #readings: Readings;
  readonly #reclaimer: MemoryReclaimer;
  readonly #shedder: Shedder | undefined;
  readonly #usageBreaker: MemoryBreaker;
  readonly #advisory: RssAdvisory | undefined;
  readonly #counters = new GuardCounters();
  readonly #tasks = new Map<number, GuardTask>();
  readonly #context: TaskContext;
  readonly #ledger: UsageLedger | undefined;
  readonly #guardPool: GuardPool;
  readonly #admission: Admission;
  readonly #beforeShedding: BeforeShedding;
  readonly #stops: (() => void)[] = [];
  #watchedPeak: () => number = () => 0;
  #stopWatching: (() => void) | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  /** Use `createMemoryGuard`. */
  constructor(setup: GuardSetup, options: MemoryGuardOptions, dependencies: GuardDependencies) {
    super(dependencies.clock);
    this.mode = setup.mode;
    this.#clock = dependencies.clock;
    this.#every = dependencies.every;
    this.#limits = setup.limits;
    this.#readings = this.#watchingPeaks(dependencies.readings);
    this.#reclaimer = new MemoryReclaimer({
      trim: dependencies.releaseFreeMemory,
      gc: dependencies.gc,
      readings: this.#readings,
      clock: dependencies.clock,
      setTurn: dependencies.setTurn,
      delay: dependencies.delay,
      onReport: (report) => this.#reclaimed(report),
    });
    this.#ledger = dependencies.ledger?.({
      key: shareKey(options, setup.mode),
      pendingMs: options.pendingMs ?? DEFAULT_PENDING_MS,
    });
    this.#guardPool = makeGuardPool({
      mode: setup.mode,
      limit: setup.limits.bytes,
      options,
      readings: this.#readings,
      reclaimer: this.#reclaimer,
      ledger: this.#ledger,
      dependencies,
      observer: {
        refused: (source, reservation, bytes, existing) =>
          this.#refused(source, reservation, bytes, existing),
        spilled: (report) => this.#spilled(report),
        leaked: (report) => this.#leaked(report),
      },
    });
    this.pool = this.#guardPool.pool;
    this.#beforeShedding = new BeforeShedding({
      reclaimer: this.#reclaimer,
      pool: this.pool,
      readings: this.#readings,
      limits: this.#limits,
      clock: this.#clock,
    });
    // Made even where there is no limit, so that a wrong option is found on every machine.
    const { shedder, breaker } = makeShedder(options, setup.limits, this.#readings, {
      clock: this.#clock,
      enforces: this.mode === 'enforce',
      tasks: () => this.#tasks.values(),
      reclaim: (pressure) => this.#reclaimFor(pressure),
      shed: (task, pressure) => this.#shed(task, pressure),
      onTrip: (task, pressure) => this.#tripped(task, pressure),
      onNoVictim: (pressure) => {
        this.#counters.noVictim += 1;
        this.tell('noVictim', () => pressure);
      },
      onRecover: (pressure, ms) => this.tell('recover', () => ({ ...pressure, ms })),
      onVictimError: (error) =>
        this.warn({
          code: 'ERR_OOM_GUARD_CALLBACK',
          message: `The victim function has thrown, the largest task goes: ${String(error)}`,
        }),
    });
    this.#usageBreaker = breaker;
    this.#shedder = setup.limits.bytes === undefined ? undefined : shedder;
    this.#context = {
      pool: this.pool,
      clock: this.#clock,
      breakerFor: (task) => this.#breakerFor(task),
    };
    this.#advisory =
      setup.limits.bytes === undefined ? undefined : new RssAdvisory(dependencies.explainRss);
    this.#admission = new Admission({
      usage: () => this.usage(),
      limit: () => this.limit,
      running: () => this.#tasks.size,
      clock: this.#clock,
      every: dependencies.every,
      options: options.admission,
    });
    this.#start(setup, dependencies);
  }

  /** What usage is held to, bytes; `undefined` when memory is only tracked. It moves for `'auto'`. */
  get limit(): number | undefined {
    return this.#limits.bytes;
  }

  /** Usage over which tasks are shed, bytes; at least the limit. */
  get breakerLimit(): number | undefined {
    return this.#limits.breaker;
  }

  /**
   * What is compared with the limit now, bytes: live bytes, the used heap of every isolate that
   * counts, and what was granted and is not allocated yet.
   */
  usage(): number {
    return this.#readings.usage() + (this.#guardPool.real?.pending ?? 0);
  }

  /** What this process holds of the kernel's memory beyond what is in use, bytes; at least 0. */
  slack(): number {
    return Math.max(0, this.#readings.rss().anon - this.#readings.usage());
  }

  /** Whether it was closed. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Runs `fn` as a task and resolves or rejects with what it does. Whatever the task reserved is
   * given back when it ends, in any way. Names may repeat. A task that is started inside another one
   * is shed with it.
   *
   * @throws ResourcesExhaustedError (rejects with it) when the task was shed and has failed; what it
   *   failed with is the cause
   * @throws StateError `ERR_OOM_GUARD_CLOSED` (rejects with it) once the guard is closed
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` (rejects with it)
   */
  async run<T>(name: string, fn: (task: GuardTask) => T | PromiseLike<T>): Promise<T> {
    if (this.#closed) {
      throw new StateError('ERR_OOM_GUARD_CLOSED', 'The memory guard is closed');
    }
    const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
    if (typeof name !== 'string' || name === '') {
      throw new ArgumentTypeError(code, 'task name', name, 'a non-empty string');
    }
    if (typeof fn !== 'function') {
      throw new ArgumentTypeError(code, 'fn', fn, 'a function');
    }
    const task = new GuardTask(name, this.#context, this.currentTask());
    this.#tasks.set(task.id, task);
    this.#watchTasks();
    try {
      return await traceTask(
        () => running.run({ task, around: running.getStore() }, async () => fn(task)),
        {
          guard: this,
          id: task.id,
          name,
        },
      );
    } catch (error) {
      throw task.shed && !isResourcesExhausted(error) ? withCause(task.error, error) : error;
    } finally {
      this.#tasks.delete(task.id);
      task.end();
      this.#unwatchTasks();
    }
  }

  /** The task of this guard that the calling code runs in, across awaits and callbacks. */
  currentTask(): GuardTask | undefined {
    for (let at = running.getStore(); at !== undefined; at = at.around) {
      if (this.#tasks.get(at.task.id) === at.task) return at.task;
    }
    return undefined;
  }

  /**
   * What `guardBatches` and guarded streams look at that are given the guard: the task that they are
   * made in. Outside of all tasks nothing is shed.
   */
  get watch(): GuardBatchesOptions {
    return this.currentTask()?.watch ?? { breaker: NEVER };
  }

  /**
   * Waits until work may start that will need `estimate` bytes at its peak: at once while usage, what was
   * admitted before and this together stay under 70 % of the limit, in order of arrival up to 85 %. An
   * idle process always admits one, and one without a limit admits all. Release the ticket when the
   * work has ended.
   *
   * @throws AdmissionRefusedError (rejects with it) over 85 %, with a full queue, or after the deadline
   * @throws StateError `ERR_OOM_GUARD_CLOSED` (rejects with it)
   * @throws ArgumentTypeError or ArgumentRangeError (rejects with it) for what is none of the accepted
   *   values
   * @throws the signal's reason (rejects with it) when that has aborted
   */
  admit(request: AdmitRequest): Promise<AdmissionTicket> {
    return this.#admission.admit(request);
  }

  /** The running tasks, oldest first. */
  tasks(): TaskSummary[] {
    const now = this.#clock();
    return [...this.#tasks.values()].map((task) => task.summary(now));
  }

  /**
   * Has `empty` called when memory is short, before garbage is collected and before anybody is shed:
   * for a cache that can be filled again. It may be asynchronous. Returns what takes it back.
   *
   * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
   */
  onReclaim(empty: CacheReclaim): () => void {
    if (typeof empty !== 'function') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'reclaim function',
        empty,
        'a function',
      );
    }
    return this.#reclaimer.addCache(empty);
  }

  /** Counters since it was made. */
  stats(): GuardStats {
    this.#notePeak();
    return this.#counters.snapshot({ reserved: this.pool.reserved, tasks: this.#tasks.size });
  }

  /** One line: what it does, its limit and how that came about. */
  describe(): string {
    const { explanation } = this.#limits;
    const doing = {
      enforce: 'enforces',
      observe: 'observes, enforces nothing',
      track: 'tracks, enforces nothing',
    }[this.mode];
    return `memory guard: ${doing}; limit ${explanation}; pool ${this.pool.toString()}`;
  }

  /**
   * Stops sampling and starts no more tasks. Those that run go on under the guard, and give back
   * what they reserved when they end. Closing again does nothing.
   */
  close(): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#admission.close();
    for (const stop of this.#stops) {
      stop();
    }
    this.#watchedPeak = () => 0;
  }

  /** The same as {@link close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** The same as {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #start({ warnings }: GuardSetup, dependencies: GuardDependencies): void {
    const watch = dependencies.watch?.();
    if (watch !== undefined) {
      this.#watchedPeak = () => watch.peakUsage();
      this.#stops.push(() => {
        this.#notePeak();
        watch.close();
      });
    }
    this.#stops.push(dependencies.every(SAMPLE_MS, () => this.#sample()));
    if (warnings.length > 0) {
      // Later, so that there is a listener by then.
      this.#stops.push(
        dependencies.later(() => {
          for (const warning of warnings) {
            this.warn(warning);
          }
        }),
      );
    }
  }

  #notePeak(): void {
    const { peakUsage } = this.#counters;
    const asked = this.#ledger?.peakUsage ?? 0;
    this.#counters.peakUsage = Math.max(peakUsage, asked, this.#watchedPeak());
  }

  #breakerFor(task: GuardTask): BatchBreaker | undefined {
    const shedder = this.#shedder;
    if (shedder === undefined) {
      return undefined;
    }
    const breaker = this.#usageBreaker;
    return {
      check: () => shedder.check(task),
      get limit() {
        return breaker.limit;
      },
      get lastUsage() {
        return breaker.lastUsage;
      },
      get error() {
        return task.error;
      },
    };
  }

  async #reclaimFor(pressure: Pressure): Promise<void> {
    await this.#beforeShedding.run(pressure);
    if (this.#limits.moves) this.#refreshLimit(0);
  }

  #shed(task: GuardTask, { source, usage, limit }: Pressure): void {
    this.#counters.shed += 1;
    task.fail(
      new ResourcesExhaustedError({
        requested: 0,
        source: 'breaker',
        pressure: source,
        consumer: task.name,
        limit,
        measured: usage,
        available: 0,
        reserved: this.pool.reserved,
        live: this.#readings.live(),
        consumers: this.pool.consumers.largest(),
      }),
    );
  }

  #tripped({ id, name, reserved }: TaskSummary, { source, usage, limit }: Pressure): void {
    this.#counters.trips += 1;
    const enforced = this.mode === 'enforce';
    this.tell('trip', () => ({
      task: name,
      id,
      reserved,
      source,
      usage,
      limit,
      enforced,
    }));
  }

  #watchTasks(): void {
    if (this.#shedder === undefined || this.#stopWatching !== undefined) {
      return;
    }
    this.#stopWatching = this.#every(WATCH_MS, () => this.#watch());
  }

  #unwatchTasks(): void {
    if (this.#tasks.size === 0) {
      this.#stopWatching?.();
      this.#stopWatching = undefined;
    }
  }

  #watch(): void {
    this.#refreshLimit();
    this.#shedder?.sample();
  }

  /** Where the limit follows the container. */
  #refreshLimit(maxAgeMs = REFRESH_LIMIT_MS): void {
    const now = this.#clock();
    if (now - this.#refreshedAt < maxAgeMs) {
      return;
    }
    this.#refreshedAt = now;
    if (this.#limits.refresh()) {
      const { bytes, breaker } = this.#limits;
      if (bytes !== undefined) this.#guardPool.setLimit(bytes);
      if (breaker !== undefined) this.#usageBreaker.limit = breaker;
    }
  }

  #watchingPeaks(readings: Readings): Readings {
    const counters = this.#counters;
    return {
      live: () => readings.live(),
      heap: () => readings.heap(),
      container: () => readings.container(),
      rss: () => readings.rss(),
      usage: () => {
        const usage = readings.usage();
        if (usage > counters.peakUsage) {
          counters.peakUsage = usage;
        }
        return usage;
      },
    };
  }

  #sample(): void {
    this.#refreshLimit();
    const usage = this.#readings.usage();
    const { total } = this.#readings.rss();
    this.#counters.peakRss = Math.max(this.#counters.peakRss, total);
    const { bytes } = this.#limits;
    // Explaining it reads all page tables.
    const due =
      bytes === undefined || !this.heard('advisory')
        ? undefined
        : this.#advisory?.sample({ rss: total, usage, limit: bytes }, this.#clock());
    if (due !== undefined) {
      this.tell('advisory', () => due);
    }
    // While tasks run somebody else does.
    if (this.#tasks.size === 0) {
      this.#shedder?.sample();
    }
  }

  #refused(
    source: RefusalSource,
    reservation: MemoryReservation,
    bytes: number,
    existing: number,
  ): void {
    if (this.#beforeShedding.asks(reservation.consumer)) {
      return;
    }
    this.#counters.refusals[source] += 1;
    // A refusal by tryGrow may be one of millions: no event without a listener.
    if (!this.heard('refuse')) {
      return;
    }
    this.tell('refuse', () => {
      const { measured } = (this.#guardPool.real ?? this.pool).refusalFigures(source, reservation);
      const enforced = this.mode === 'enforce';
      const needed = source === 'pool' ? bytes : bytes - existing;
      return {
        source,
        consumer: `${reservation.consumer.name}#${reservation.consumer.id}`,
        requested: bytes,
        enforced,
        // What was only observed is booked by now.
        wouldPassAt: enforced ? measured + needed : measured,
      };
    });
  }

  #spilled({ error, freed }: SpillReport): void {
    if (error === undefined) {
      this.#counters.spills += 1;
    } else {
      this.#counters.spillFailures += 1;
    }
    this.#counters.spilledBytes += freed;
  }

  #leaked(report: LeakReport): void {
    if (this.listenerCount('leak') > 0) {
      this.tell('leak', () => report);
    } else {
      warnOfLeak(report);
    }
  }

  #reclaimed(report: ReclaimReport): void {
    this.#counters.reclaims[report.kind] += 1;
    this.tell('reclaim', () => report);
    if (report.kind === 'cache' && report.error !== undefined) {
      this.warn({
        code: 'ERR_OOM_GUARD_CALLBACK',
        message: `A cache could not be emptied: ${describeErrors(report.error)}`,
      });
    }
  }
}

function describeErrors(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(String).join('; ') : String(error);
}
