import { addBreakdown } from '../../counting/breakdowns';
import type { MemoryGuard } from '../../guard';
import type { MemoryPool, WaitOptions } from '../../pool';
import { Serial } from '../../serial';
import { DuckDBClaim } from './claim';
import { bytesOf } from './errors';
import type { GovernorSettings } from './governor-options';
import { nextLimit } from './policy';
import type { DuckDBMemory, DuckDBSettings } from './settings';

/** What a governor has seen and done. Sizes in bytes. */
export interface DuckDBGovernorStats {
  /** `memory_limit` as it stands. */
  readonly memoryLimit: number;
  /** What DuckDB's buffer manager held when it was last asked. */
  readonly used: number;
  /** What the limit does not fall under now. */
  readonly floor: number;
  /** Threads that DuckDB runs queries on. */
  readonly threads: number;
  /** Queries that run through `runGuarded`. */
  readonly running: number;
  readonly raised: number;
  readonly lowered: number;
  /** Lowered limits that DuckDB did not accept. */
  readonly refused: number;
  /** Queries that DuckDB failed for want of memory, as far as `runGuarded` ran them. */
  readonly failedQueries: number;
  /** Times that freed memory was given back to the kernel. */
  readonly purges: number;
  /** What DuckDB answered to the governor itself, when that was an error. */
  readonly lastError: unknown;
}

/** What a database changes by this within {@link ACTIVE_MS} means that somebody uses it, bytes. */
const ACTIVE_BYTES = 2 ** 20;
const ACTIVE_MS = 1000;
/** For how long a refused cut says what running queries need, ms. */
const NEED_MS = 1000;
/** For how long a failed query says what its like needs, ms. */
const LESSON_MS = 60_000;
const LESSON_GROWTH = 1.5;
const PURGE_INTERVAL_MS = 1000;
/** The instance is gone, most likely. */
const MOST_ERRORS = 20;

/**
 * Holds a DuckDB database to what the rest of the process leaves it, by moving its `memory_limit`.
 * Made by `governDuckDB`.
 */
export class DuckDBGovernor {
  /** What it is called in errors and in `memory()`. */
  readonly name: string;
  readonly #guard: MemoryGuard;
  readonly #settings: DuckDBSettings;
  readonly #decide: (limit: number | undefined) => GovernorSettings;
  #options: GovernorSettings;
  #decidedFor: number | undefined;
  readonly #original: string;
  readonly #claim: DuckDBClaim;
  readonly #enforces: boolean;
  readonly #release: () => Promise<unknown>;
  readonly #stops: (() => void)[] = [];
  readonly #counts = { raised: 0, lowered: 0, refused: 0, failedQueries: 0, purges: 0 };
  #memory: DuckDBMemory = { used: 0, tags: [] };
  #memoryLimit: number;
  #threads: number;
  #running = 0;
  #activeUntil = 0;
  #activeAt = 0;
  #need = { bytes: 0, until: 0 };
  #lesson = { bytes: 0, until: 0 };
  #purgedAt = Number.NEGATIVE_INFINITY;
  #lastError: unknown;
  #errors = 0;
  /** The limit is moved by one at a time. */
  readonly #serial = new Serial();
  #moved = false;
  #tick: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  /** Use `governDuckDB`. */
  constructor(
    guard: MemoryGuard,
    settings: DuckDBSettings,
    decide: (limit: number | undefined) => GovernorSettings,
    memoryLimit: string,
    release: () => Promise<unknown>,
  ) {
    const options = decide(guard.limit);
    this.#decide = decide;
    this.#decidedFor = guard.limit;
    this.name = options.name;
    this.#guard = guard;
    this.#settings = settings;
    this.#options = options;
    this.#original = memoryLimit;
    this.#memoryLimit = bytesOf(memoryLimit) ?? Number.MAX_SAFE_INTEGER;
    this.#threads = options.threads;
    this.#release = release;
    this.#enforces = guard.mode === 'enforce' && guard.limit !== undefined;
    this.#claim = new DuckDBClaim(options.name, guard.pool, (bytes) => this.#yield(bytes));
    this.#stops.push(
      addBreakdown(() => ({ name: this.name, entries: this.#memory.tags })),
      options.every(options.tickMs, () => void this.tick()),
    );
  }

  /** Where its books are kept. */
  get pool(): MemoryPool {
    return this.#guard.pool;
  }

  /** `memory_limit` as it stands, bytes. */
  get memoryLimit(): number {
    return this.#memoryLimit;
  }

  /** What DuckDB held when it was last asked, divided among the queries of `runGuarded`, bytes. */
  get perQuery(): number {
    return this.#memory.used / Math.max(1, this.#running);
  }

  /** Whether it was closed. */
  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** What it has seen and done. */
  stats(): DuckDBGovernorStats {
    return {
      memoryLimit: this.#memoryLimit,
      used: this.#memory.used,
      floor: this.#floor(),
      threads: this.#threads,
      running: this.#running,
      ...this.#counts,
      lastError: this.#lastError,
    };
  }

  /** Looks at the process and at DuckDB once, now, and moves the limit. Never rejects. */
  tick(): Promise<void> {
    if (this.closed) return Promise.resolve();
    this.#tick ??= this.#serial
      .run(() => this.#look())
      .finally(() => {
        this.#tick = undefined;
      });
    return this.#tick;
  }

  /**
   * Gives DuckDB its `memory_limit` and its threads back and leaves it alone. Closing again does
   * nothing. Never rejects.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Starts {@link close}. */
  [Symbol.dispose](): void {
    void this.close();
  }

  /** The same as {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * A query is about to run: its floor is reserved, for which others are made to spill. Where they
   * cannot, and no query runs yet, DuckDB gets by on one thread. For `runGuarded`.
   *
   * @throws the reason of a signal that has aborted (rejects with it)
   */
  async enter(wait: WaitOptions = {}): Promise<void> {
    this.#running += 1;
    try {
      // A look at what is there, and after the claim at what that has made of it.
      await this.tick();
      if (this.#enforces && !this.closed) await this.#claimFloor(wait);
      await this.tick();
    } catch (error) {
      this.#running -= 1;
      throw error;
    }
  }

  /** A query has ended. For `runGuarded`. */
  leave(): void {
    this.#running -= 1;
    if (this.#running === 0 && this.#threads !== this.#options.threads) {
      // Queries that do not come through here have use for the others.
      void this.#serial.run(() => this.#try(() => this.#restoreThreads()));
    }
  }

  /** A query has failed for want of memory: its like needs more. For `runGuarded`. */
  learn(): void {
    this.#counts.failedQueries += 1;
    const bytes = Math.ceil(Math.max(this.#memoryLimit, this.#floor()) * LESSON_GROWTH);
    this.#lesson = { bytes, until: this.#options.clock() + LESSON_MS };
  }

  async #claimFloor(wait: WaitOptions): Promise<void> {
    const { threads, clock } = this.#options;
    const alone = this.#running === 1 && !this.#active();
    const begun = clock();
    const enough = await this.#claim.claim(this.#floorOn(threads), this.#memory.used, wait);
    if (alone) {
      await this.#serial.run(async () => {
        if (this.#running === 1 && !this.closed) await this.#useThreads(enough ? threads : 1);
      });
    }
    if (enough || this.closed) return;
    const { deadlineMs } = wait;
    const left =
      deadlineMs === undefined ? {} : { deadlineMs: Math.max(0, deadlineMs - (clock() - begun)) };
    await this.#claim.claim(this.#floor(), this.#memory.used, { ...wait, ...left });
  }

  async #restoreThreads(): Promise<void> {
    if (this.#running === 0 && !this.closed) await this.#useThreads(this.#options.threads);
  }

  /** What the limit does not fall under, on so many threads, bytes. */
  #floorOn(threads: number): number {
    const { floorPerThread, ceiling, clock } = this.#options;
    const now = clock();
    const need = now < this.#need.until ? this.#need.bytes : 0;
    const lesson = now < this.#lesson.until ? this.#lesson.bytes : 0;
    return Math.min(ceiling, Math.ceil(Math.max(floorPerThread * threads, need, lesson)));
  }

  #floor(): number {
    return this.#floorOn(this.#threads);
  }

  #active(): boolean {
    return this.#options.clock() < this.#activeUntil;
  }

  async #look(): Promise<void> {
    try {
      await this.#read();
      this.#followGuard();
      const floor = this.#floor();
      const busy = this.#running > 0 || this.#active();
      this.#claim.book(this.#memory.used, floor, busy ? floor : 0);
      if (this.#enforces) {
        if (this.#active() && !this.#claim.claiming) {
          void this.#try(async () => {
            await this.#claim.claim(floor, this.#memory.used);
          });
        }
        await this.#moveTo(this.#wanted(floor));
        // What DuckDB cannot give back, the others have to.
        if (this.#overLimit()) void this.#claim.makeRoom(this.#options.headroom);
        await this.#purge();
      }
      this.#errors = 0;
    } catch (error) {
      this.#lastError = error;
      this.#errors += 1;
      if (this.#errors >= MOST_ERRORS) void this.close();
    }
  }

  /** Floor, ceiling and headroom are shares of a limit that may move. */
  #followGuard(): void {
    const { limit } = this.#guard;
    if (limit === this.#decidedFor) return;
    this.#options = this.#decide(limit);
    this.#decidedFor = limit;
  }

  async #read(): Promise<void> {
    this.#memory = await this.#settings.memory();
    const { used } = this.#memory;
    if (Math.abs(used - this.#activeAt) >= ACTIVE_BYTES) {
      this.#activeAt = used;
      this.#activeUntil = this.#options.clock() + ACTIVE_MS;
    }
  }

  #overLimit(): boolean {
    const { limit } = this.#guard;
    return limit !== undefined && this.#guard.usage() > limit;
  }

  #wanted(floor: number): number {
    const { ceiling, headroom } = this.#options;
    const { used } = this.#memory;
    const others = Math.max(0, this.#guard.usage() - used);
    const room = (this.#guard.limit ?? ceiling) - headroom - others;
    return nextLimit({ current: this.#memoryLimit, used, room, floor, ceiling });
  }

  async #moveTo(bytes: number): Promise<void> {
    if (bytes === this.#memoryLimit) return;
    const lower = bytes < this.#memoryLimit;
    if (await this.#settings.setMemoryLimit(bytes)) {
      this.#memoryLimit = bytes;
      this.#moved = true;
      this.#counts[lower ? 'lowered' : 'raised'] += 1;
    } else {
      this.#counts.refused += 1;
      // What is left after everything was evicted that could be.
      await this.#read();
      this.#need = { bytes: this.#memory.used, until: this.#options.clock() + NEED_MS };
    }
  }

  /** The pool needs room: down to the floor, at once, and then says what has gone. */
  async #yield(bytes: number): Promise<void> {
    if (!this.#enforces || this.closed) return;
    await this.#serial.run(async () => {
      if (this.closed) return;
      await this.#read();
      const floor = this.#floor();
      const target = Math.max(floor, this.#memory.used - bytes);
      if (target < this.#memoryLimit) await this.#moveTo(target);
      await this.#read();
      this.#claim.book(this.#memory.used, floor, this.#claim.reserved);
    });
  }

  async #useThreads(threads: number): Promise<void> {
    if (threads === this.#threads) return;
    await this.#settings.setThreads(threads);
    this.#threads = threads;
  }

  async #purge(): Promise<void> {
    const now = this.#options.clock();
    if (now - this.#purgedAt < PURGE_INTERVAL_MS) return;
    if (this.#guard.slack() <= this.#options.slackBytes) return;
    this.#purgedAt = now;
    this.#counts.purges += 1;
    await this.#release();
  }

  async #close(): Promise<void> {
    for (const stop of this.#stops) stop();
    // Behind what is under way: it must not lower the limit again.
    await this.#serial.run(async () => {
      await this.#try(() => this.#useThreads(this.#options.threads));
      if (this.#moved) {
        await this.#try(() => this.#settings.restoreMemoryLimit(this.#original));
      }
      this.#claim.close();
      this.#settings.close();
    });
  }

  async #try(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#lastError = error;
    }
  }
}
