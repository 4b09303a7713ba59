import type { MemoryBreaker } from '../breaker';
import type { GuardTask, TaskSummary } from './guard-task';
import { largestTask, type Pressure, type VictimPolicy } from './victim';

/** A full reading of memory for the check between batches at most this often, ms. */
const READ_MS = 1;

/** One thing that can be exhausted. */
export interface WatchedLimit {
  readonly source: Pressure['source'];
  readonly breaker: MemoryBreaker;
}

/** What a {@link Shedder} works with. */
export interface ShedderOptions {
  readonly watched: readonly WatchedLimit[];
  /** Milliseconds, monotonic. */
  readonly clock: () => number;
  /** False: only tells what it would have done. */
  readonly enforces: boolean;
  readonly victim: VictimPolicy;
  /** Tasks that have reserved less are spared by `'largest'`, bytes. */
  readonly victimFloor: number;
  /** Whether the kernel is about to kill the process: then there is no time to wait and see. */
  readonly urgent: (now: number) => boolean;
  /** For how long nothing is decided after a task was shed, ms: what it held has to go first. */
  readonly settleMs: number;
  readonly tasks: () => Iterable<GuardTask>;
  /** Gives back what nobody needs, before anybody is shed. */
  readonly reclaim: (pressure: Pressure) => Promise<unknown>;
  /** `task` was shed or, where nothing is enforced, would have been. */
  readonly onTrip: (task: TaskSummary, pressure: Pressure) => void;
  /** There is nobody to shed. Once an episode. */
  readonly onNoVictim: (pressure: Pressure) => void;
  /** Memory is under the low-water mark again, `ms` after the first trip. */
  readonly onRecover: (pressure: Pressure, ms: number) => void;
  /** Sheds `task`. */
  readonly shed: (task: GuardTask, pressure: Pressure) => void;
  /** A `victim` function has thrown. */
  readonly onVictimError: (error: unknown) => void;
}

/** From the first trip until usage is low again. */
interface Episode {
  readonly since: number;
  /** That there is nobody to shed. */
  told: boolean;
  /** Anything at all: where garbage was enough nobody has heard of it. */
  spoken: boolean;
}

/**
 * Sheds one task when memory stays short: looks when a batch passes and whenever it is sampled, lets
 * garbage go first, and gives what was shed time to go before it looks for another.
 */
export class Shedder {
  readonly #options: ShedderOptions;
  readonly #episodes = new Map<Pressure['source'], Episode>();
  #readAt = Number.NEGATIVE_INFINITY;
  #settledAt = Number.NEGATIVE_INFINITY;
  #deciding: Promise<void> | undefined;
  /** With `'next'`: somebody has to go, whoever asks first. */
  #wanted: Pressure | undefined;

  constructor(options: ShedderOptions) {
    this.#options = options;
  }

  /** Between two batches of `task`: whether that has to fail. */
  check(task: GuardTask): boolean | Promise<boolean> {
    if (task.shed) return true;
    // An iteration that outlives its task is nobody's.
    if (task.ended) return false;
    const now = this.#options.clock();
    if (now - this.#readAt >= READ_MS) this.#look(now, task);
    if (this.#wanted !== undefined) this.#takeNext(task, this.#wanted);
    return this.#deciding?.then(() => task.shed) ?? task.shed;
  }

  /** Whether somebody has to go, seen from outside of all tasks. */
  sample(): void {
    this.#look(this.#options.clock(), undefined);
  }

  #look(now: number, task: GuardTask | undefined): void {
    this.#readAt = now;
    for (const { source, breaker } of this.#options.watched) {
      const tripped =
        breaker.check() || (breaker.over && source === 'usage' && this.#options.urgent(now));
      if (breaker.low) this.#endEpisode(source, breaker, now);
      // Nothing adds up while what was shed is still going.
      if (now < this.#settledAt) breaker.rearm();
      else if (tripped && this.#deciding === undefined) this.#trip({ source, breaker }, now, task);
    }
  }

  #trip({ source, breaker }: WatchedLimit, now: number, task: GuardTask | undefined): void {
    const first = !this.#episodes.has(source);
    if (first) this.#episodes.set(source, { since: now, told: false, spoken: false });
    if (!this.#options.enforces) {
      if (first) this.#tell({ source, usage: breaker.lastUsage, limit: breaker.limit }, task);
      return;
    }
    this.#deciding = this.#decide({ source, breaker }, task)
      .catch(this.#options.onVictimError)
      .finally(() => {
        this.#deciding = undefined;
      });
  }

  async #decide({ source, breaker }: WatchedLimit, task: GuardTask | undefined): Promise<void> {
    const before = { source, usage: breaker.lastUsage, limit: breaker.limit };
    await this.#options.reclaim(before);
    breaker.check();
    breaker.rearm();
    if (!breaker.over) return;
    const pressure = { source, usage: breaker.lastUsage, limit: breaker.limit };
    const { victim } = this.#options;
    if (victim === 'next') {
      if (task === undefined || task.ended) this.#wanted = pressure;
      else this.#shed(task, pressure);
      return;
    }
    const chosen = this.#choose(pressure);
    if (chosen === undefined) this.#noVictim(pressure);
    else this.#shed(chosen, pressure);
  }

  #choose(pressure: Pressure): GuardTask | undefined {
    const { victim, victimFloor } = this.#options;
    const tasks = new Map<number, GuardTask>();
    for (const task of this.#options.tasks()) if (!task.shed) tasks.set(task.id, task);
    const now = this.#options.clock();
    const summaries = [...tasks.values()].map((task) => task.summary(now));
    let chosen: TaskSummary | null | undefined;
    try {
      chosen =
        typeof victim === 'function'
          ? victim(summaries, pressure)
          : largestTask(summaries, victimFloor);
    } catch (error) {
      this.#options.onVictimError(error);
      chosen = largestTask(summaries, victimFloor);
    }
    const id = chosen?.id;
    return id === undefined ? undefined : tasks.get(id);
  }

  #takeNext(task: GuardTask, pressure: Pressure): void {
    this.#wanted = undefined;
    const watched = this.#options.watched.find(({ source }) => source === pressure.source);
    if (watched?.breaker.over !== true) return;
    if (this.#options.enforces) this.#shed(task, pressure);
    else this.#onTrip(task, pressure);
  }

  #shed(task: GuardTask, pressure: Pressure): void {
    const now = this.#options.clock();
    this.#settledAt = now + this.#options.settleMs;
    const summary = task.summary(now);
    this.#options.shed(task, pressure);
    this.#spoken(pressure.source);
    this.#options.onTrip(summary, pressure);
  }

  #onTrip(task: GuardTask, pressure: Pressure): void {
    this.#spoken(pressure.source);
    this.#options.onTrip(task.summary(this.#options.clock()), pressure);
  }

  #spoken(source: Pressure['source']): void {
    const episode = this.#episodes.get(source);
    if (episode !== undefined) episode.spoken = true;
  }

  /** What would have been done. */
  #tell(pressure: Pressure, task: GuardTask | undefined): void {
    if (this.#options.victim === 'next' && task === undefined) {
      this.#wanted = pressure;
      return;
    }
    const chosen = this.#options.victim === 'next' ? task : this.#choose(pressure);
    if (chosen === undefined) this.#noVictim(pressure);
    else this.#onTrip(chosen, pressure);
  }

  #noVictim(pressure: Pressure): void {
    const episode = this.#episodes.get(pressure.source);
    if (episode === undefined || episode.told) return;
    episode.told = true;
    episode.spoken = true;
    this.#options.onNoVictim(pressure);
  }

  #endEpisode(source: Pressure['source'], breaker: MemoryBreaker, now: number): void {
    const episode = this.#episodes.get(source);
    if (episode === undefined) return;
    this.#episodes.delete(source);
    if (this.#wanted?.source === source) this.#wanted = undefined;
    if (!episode.spoken) return;
    const { lastUsage: usage, limit } = breaker;
    this.#options.onRecover({ source, usage, limit }, now - episode.since);
  }
}
