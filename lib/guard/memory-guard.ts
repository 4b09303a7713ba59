import { EventEmitter } from 'node:events';
import { type BatchBreaker, MemoryBreaker } from '../breaker';
import type { Readings } from '../counting/readings';
import { ArgumentTypeError, type RefusalSource, StateError } from '../errors';
import {
  FairSpillPool,
  type LeakReport,
  type MemoryPool,
  type MemoryReservation,
  type PoolObserver,
  RealUsagePool,
  type SpillReport,
  UnboundedMemoryPool,
  type UsageLedger,
} from '../pool';
import { warnOfLeak } from '../pool/leaks';
import { ledgerKey } from '../pool/process-ledger';
import { MemoryReclaimer, type ReclaimReport } from '../reclaim';
import type { GuardEvents, GuardWarning } from './events';
import type { GuardLimit } from './guard-limit';
import type { GuardDependencies, GuardMode, MemoryGuardOptions } from './guard-options';
import { GuardCounters, type GuardStats } from './guard-stats';
import { GuardTask, type TaskContext, type TaskSummary } from './guard-task';
import { ObservingPool } from './observing-pool';
import { RssAdvisory } from './rss-advisory';

const SAMPLE_MS = 1000;
const DEFAULT_PENDING_MS = 1000;

/** What the factory has found out before there is a guard. */
export interface GuardSetup {
  readonly mode: GuardMode;
  readonly limit: GuardLimit;
  readonly warnings: readonly GuardWarning[];
}

/**
 * Runs tasks under one memory limit: wires readings, pool, breaker and reclaim together. Made by
 * `createMemoryGuard`.
 */
export class MemoryGuard extends EventEmitter<GuardEvents> {
  /** `track`: nothing is enforced, because there is no limit. */
  readonly mode: GuardMode;
  /** What its tasks reserve from. */
  readonly pool: MemoryPool;
  readonly #clock: () => number;
  readonly #limit: GuardLimit;
  readonly #readings: Readings;
  readonly #reclaimer: MemoryReclaimer;
  readonly #breaker: MemoryBreaker | undefined;
  readonly #counters = new GuardCounters();
  readonly #tasks = new Map<number, GuardTask>();
  readonly #context: TaskContext;
  #watchedPeak: () => number = () => 0;
  readonly #ledger: UsageLedger | undefined;
  readonly #stops: (() => void)[] = [];
  #wasTripped = false;
  #closed = false;

  /** Use `createMemoryGuard`. */
  constructor(setup: GuardSetup, options: MemoryGuardOptions, dependencies: GuardDependencies) {
    super();
    this.mode = setup.mode;
    this.#clock = dependencies.clock;
    this.#limit = setup.limit;
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
    const limit = setup.limit.bytes;
    this.#ledger = dependencies.ledger?.({
      key: shareKey(options, setup.mode),
      pendingMs: options.pendingMs ?? DEFAULT_PENDING_MS,
    });
    this.pool = this.#makePool(limit, options, dependencies);
    // Made even where there is no limit, so that a wrong option is found on every machine.
    const breaker = new MemoryBreaker({
      ...options.breaker,
      limit: limit ?? Number.MAX_SAFE_INTEGER,
      usage: () => this.#readings.usage(),
      clock: dependencies.clock,
    });
    this.#breaker = limit === undefined ? undefined : breaker;
    this.#context = {
      pool: this.pool,
      clock: this.#clock,
      breakerFor: (task) => this.#breakerFor(task),
      holders: () => ({
        reserved: this.pool.reserved,
        live: this.#readings.live(),
        consumers: this.pool.consumers.largest(),
      }),
    };
    const watch = dependencies.watch?.();
    if (watch !== undefined) {
      this.#watchedPeak = () => watch.peakUsage();
      this.#stops.push(() => {
        this.#notePeak();
        watch.close();
      });
    }
    const advisory = limit === undefined ? undefined : new RssAdvisory(limit);
    this.#stops.push(dependencies.every(SAMPLE_MS, () => this.#sample(advisory)));
    if (setup.warnings.length > 0) {
      // Later, so that there is a listener by then.
      this.#stops.push(
        dependencies.later(() => {
          for (const warning of setup.warnings) {
            this.#warn(warning);
          }
        }),
      );
    }
  }

  /** What usage is held to, bytes; `undefined` when memory is only tracked. */
  get limit(): number | undefined {
    return this.#limit.bytes;
  }

  /**
   * What is compared with the limit now, bytes: live bytes, the used heap of every isolate that
   * counts, and what was granted and is not allocated yet.
   */
  usage(): number {
    const pending = this.pool instanceof RealUsagePool ? this.pool.pending : 0;
    return this.#readings.usage() + pending;
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
   * given back when it ends, in any way. Names may repeat.
   *
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
    const task = new GuardTask(name, this.#context);
    this.#tasks.set(task.id, task);
    try {
      return await fn(task);
    } finally {
      this.#tasks.delete(task.id);
      task.end();
    }
  }

  /** The running tasks, oldest first. */
  tasks(): TaskSummary[] {
    const now = this.#clock();
    return [...this.#tasks.values()].map((task) => task.summary(now));
  }

  /** Counters since it was made. */
  stats(): GuardStats {
    this.#notePeak();
    return this.#counters.snapshot({ reserved: this.pool.reserved, tasks: this.#tasks.size });
  }

  /** One line: what it does, its limit and how that came about. */
  describe(): string {
    const { explanation } = this.#limit;
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

  #notePeak(): void {
    const { peakUsage } = this.#counters;
    const asked = this.#ledger?.peakUsage ?? 0;
    this.#counters.peakUsage = Math.max(peakUsage, asked, this.#watchedPeak());
  }

  #breakerFor(task: GuardTask): BatchBreaker | undefined {
    const breaker = this.#breaker;
    if (breaker === undefined) {
      return undefined;
    }
    return {
      limit: breaker.limit,
      get lastUsage() {
        return breaker.lastUsage;
      },
      check: () => this.#checkBreaker(breaker, task),
    };
  }

  #checkBreaker(breaker: MemoryBreaker, task: GuardTask): boolean {
    const tripped = breaker.check();
    const enforced = this.mode === 'enforce';
    const tripsNow = tripped && !this.#wasTripped;
    // Where a task fails for it the next trip is another one, with a streak of its own.
    this.#wasTripped = tripped && !enforced;
    if (!tripsNow) {
      return false;
    }
    this.#counters.trips += 1;
    if (enforced) {
      this.#counters.shed += 1;
      // One task at a time: what it held has to go before the next can be to blame.
      breaker.rearm();
    }
    const { lastUsage: usage, limit } = breaker;
    this.#emit('trip', { task: task.name, usage, limit, enforced });
    return enforced;
  }

  #makePool(
    limit: number | undefined,
    options: MemoryGuardOptions,
    dependencies: GuardDependencies,
  ): MemoryPool {
    const observer: PoolObserver = {
      refused: (source, reservation, bytes) => this.#refused(source, reservation, bytes),
      spilled: (report) => this.#spilled(report),
      leaked: (report) => this.#leaked(report),
    };
    const clock = this.#clock;
    const declared =
      options.pool ??
      (limit === undefined
        ? new UnboundedMemoryPool({ clock, observer })
        : new FairSpillPool(limit, { clock }));
    const real = new RealUsagePool(declared, {
      limit: limit ?? Number.MAX_SAFE_INTEGER,
      readings: this.#readings,
      reclaimer: this.#reclaimer,
      heapRatio: options.heapRatio,
      containerMargin: options.containerMargin,
      containerCheck: options.containerCheck,
      pendingMs: options.pendingMs,
      unspillableReserve: options.unspillableReserve,
      spillExemption: options.spillExemption,
      ledger: this.#ledger,
      delay: dependencies.delay,
      clock,
      observer,
    });
    if (limit === undefined) {
      return declared;
    }
    return this.mode === 'observe' ? new ObservingPool(real) : real;
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

  #sample(advisory: RssAdvisory | undefined): void {
    const usage = this.#readings.usage();
    const { total } = this.#readings.rss();
    this.#counters.peakRss = Math.max(this.#counters.peakRss, total);
    const due = advisory?.sample(total, usage, this.#clock());
    if (due !== undefined) {
      this.#emit('advisory', due);
    }
  }

  #refused(source: RefusalSource, reservation: MemoryReservation, bytes: number): void {
    this.#counters.refusals[source] += 1;
    // A refusal by tryGrow may be one of millions: no event without a listener.
    if (this.listenerCount('refuse') > 0) {
      this.#emit('refuse', {
        source,
        consumer: `${reservation.consumer.name}#${reservation.consumer.id}`,
        requested: bytes,
        enforced: this.mode === 'enforce',
      });
    }
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
      this.#emit('leak', report);
    } else {
      warnOfLeak(report);
    }
  }

  #reclaimed(report: ReclaimReport): void {
    this.#counters.reclaims[report.kind] += 1;
    this.#emit('reclaim', report);
  }

  #warn(warning: GuardWarning): void {
    if (this.listenerCount('warning') > 0) {
      this.#emit('warning', warning);
    } else if (warning.code !== 'ERR_OOM_GUARD_TRACK_ONLY') {
      // Outside a container tracking only is what everybody has; that is not worth a line each.
      process.emitWarning(warning.message, { type: 'OomGuardWarning', code: warning.code });
    }
  }

  /** A listener that throws must not leave a pool or a reclaim half done: it throws on its own. */
  #emit<K extends keyof GuardEvents>(event: K, argument: GuardEvents[K][0]): void {
    try {
      (this as EventEmitter).emit(event, argument);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }
}

/**
 * Guards that were given no pool of their own share what they have reserved; those that were, with
 * the guards of other isolates that were given one of the same kind and limit. What is only observed
 * takes nothing from what is enforced.
 */
function shareKey({ share, pool }: MemoryGuardOptions, mode: GuardMode): string {
  const prefix = mode === 'enforce' ? '' : `${mode}/`;
  if (share !== undefined) {
    return `${prefix}named/${share}`;
  }
  // One that is none is refused when it is used.
  return `${prefix}${typeof pool?.requestGrow === 'function' ? ledgerKey(pool) : 'default'}`;
}
