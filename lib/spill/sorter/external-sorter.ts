import { StateError } from '../../errors';
import type { MemoryReservation } from '../../pool';
import { isResourcesExhausted } from '../../pool';
import { Serial } from '../../serial';
import { SpillSpaceError } from '../errors';
import { interruptible } from '../interruptible';
import type { SpillDirectory } from '../spill-directory';
import type { Cursor } from './cursor';
import { Merge } from './merge';
import type { HeldRows, RowKind, SorterSizes } from './row-kind';
import { collect, Runs } from './runs';
import {
  checkFanIn,
  checkRows,
  checkSignal,
  type ExternalSorterOptions,
  openDirectory,
  reserveFrom,
  sorterSizes,
} from './sorter-options';

/** How a sort went. Sizes in bytes. */
export interface SortStats {
  /** Rows pushed. */
  readonly rows: number;
  /** Times that the rows in memory were written to disk. */
  readonly spills: number;
  /** Merges of runs into longer runs, because there were more than can be read at once. */
  readonly passes: number;
  /** Written to disk in all, merges included. */
  readonly spilledBytes: number;
  /** Held in memory now: the rows, without buffers. */
  readonly heldBytes: number;
}

/** Longest stretch of work before the event loop has a turn, ms. */
const turnInterval = 10;

/** For how long memory for the result is not asked for again after it was refused, ms. */
const renewInterval = 1_000;

const allocatedNone = { alreadyAllocated: 0 };

/**
 * Sorts more rows than memory has room for. Rows are held in memory under a reservation; when that
 * may not grow, and when somebody else needs the room, they are written to disk as a sorted run. The
 * result is a merge of the runs and of what is in memory still.
 *
 * Stable: rows that compare equal come out in the order in which they were pushed. Close it, or read
 * the result to its end: until then it holds memory and disk. Errors after which the sort cannot go on
 * (a comparator or codec that throws, a file that cannot be read) close it by themselves, and every
 * later call rejects with them. Refused memory and a full disk leave it as it was.
 */
export class ExternalSorter<Batch> implements AsyncDisposable {
  readonly #kind: RowKind<Batch>;
  readonly #sizes: SorterSizes;
  readonly #reservation: MemoryReservation;
  readonly #directory: SpillDirectory;
  readonly #ownDirectory: boolean;
  readonly #runs: Runs<Batch>;
  readonly #reuse: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #aborted = () => this.#fail(this.#signal?.reason);
  /** Pushes, in order. */
  readonly #pushes = new Serial();
  /** Whatever touches the rows in memory. Never waits for room within: a spill has to get in. */
  readonly #exclusive = new Serial();
  #fanIn: number;
  #phase: 'filling' | 'merging' | 'closed' = 'filling';
  #held: HeldRows<Batch> | undefined;
  /** The merge that makes the result, once it has begun. */
  #merge: Merge<Cursor> | undefined;
  /** Reserved for rows that are still to be added. */
  #granted = 0;
  /** Reserved for the buffers of the merge. */
  #mergeGranted = 0;
  #rows = 0;
  #spills = 0;
  #passes = 0;
  #lastTurn = performance.now();
  #noRenewalBefore = 0;
  #failure: { error: unknown } | undefined;
  #closing: Promise<void> | undefined;

  /**
   * Makes the directory at once, so that one that cannot be used is told at once.
   *
   * @throws SpillDirectoryError `ERR_OOM_GUARD_SPILL_DIRECTORY`
   * @throws ArgumentTypeError or ArgumentRangeError for the options
   */
  constructor(options: ExternalSorterOptions<Batch>) {
    this.#kind = checkRows(options.rows);
    this.#sizes = sorterSizes(options, this.#kind);
    this.#fanIn = checkFanIn(options.fanIn);
    this.#reuse = options.reuseBatches === true;
    this.#signal = checkSignal(options.signal);
    this.#reservation = reserveFrom(options.memory, options.name ?? 'external sort', {
      in: this.#kind.location,
      spill: () => this.spill(),
    });
    try {
      const { directory, own } = openDirectory(options.directory);
      this.#directory = directory;
      this.#ownDirectory = own;
    } catch (error) {
      this.#reservation.close();
      throw error;
    }
    this.#runs = new Runs(this.#kind, this.#sizes, this.#directory);
    this.#signal?.addEventListener('abort', this.#aborted, { once: true });
    if (this.#signal?.aborted) this.#aborted();
  }

  /** How it goes. */
  get stats(): SortStats {
    return {
      rows: this.#rows,
      spills: this.#spills,
      passes: this.#passes,
      spilledBytes: this.#runs.writtenBytes,
      heldBytes: this.#held?.bytes ?? 0,
    };
  }

  /** What it holds of the pool, bytes. */
  get reservedBytes(): number {
    return this.#reservation.size;
  }

  /**
   * Takes a batch of rows. Await it: until then there may be no room. A batch that was refused has
   * not been taken, and can be pushed again. Several calls are done in order.
   *
   * @throws ResourcesExhaustedError when no room could be made; the cause tells of a disk that is full
   * @throws ArgumentTypeError or ArgumentRangeError when it is no batch of such rows
   * @throws StateError `ERR_OOM_GUARD_CLOSED` after `sorted()` or `close()`
   */
  async push(batch: Batch): Promise<void> {
    this.#check('filling');
    await interruptible(
      this.#pushes.run(() => this.#push(batch)),
      this.#signal,
    );
  }

  /**
   * Writes the rows in memory to disk as a sorted run and gives their memory back. Called by the pool
   * when somebody needs room; also while the result is read. Nothing to do when there are none.
   *
   * @throws SpillSpaceError when the disk is full; the rows stay in memory
   * @throws ResourcesExhaustedError when there is no room for the write buffers
   */
  async spill(): Promise<void> {
    if (!this.#holdsRows()) return;
    const bytes = this.#runs.writeBytes;
    await this.#reservation.grow(bytes, allocatedNone);
    try {
      await this.#exclusive.run(() => this.#spillHeld());
    } catch (error) {
      if (!(error instanceof SpillSpaceError)) this.#fail(error);
      throw error;
    } finally {
      this.#shrink(bytes);
    }
  }

  /**
   * All rows in order, as batches. Takes no more rows from here on. The sorter closes when the
   * iteration ends, in whatever way. Refused the memory for a wide merge it makes narrower ones; what
   * the narrowest needs, a few batches, it takes as overcommit in the end.
   *
   * @throws SpillError and the classes that extend it when runs cannot be read or merged
   * @throws StateError `ERR_OOM_GUARD_CLOSED` when it was called before, or after `close()`
   */
  sorted(): AsyncGenerator<Batch, void, undefined> {
    this.#check('filling');
    this.#phase = 'merging';
    return this.#results();
  }

  /** Pushes every batch of `source`, then returns `sorted()`. Closes when anything fails. */
  async *sort(
    source: AsyncIterable<Batch> | Iterable<Batch>,
  ): AsyncGenerator<Batch, void, undefined> {
    try {
      await this.#pushAll(source);
      yield* this.sorted();
    } finally {
      await this.close();
    }
  }

  /** Gives back memory and disk, whatever it is doing. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #pushAll(source: AsyncIterable<Batch> | Iterable<Batch>): Promise<void> {
    const iterator =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    let ended = false;
    try {
      for (;;) {
        // A source that never answers must not keep an abort waiting.
        const step = await interruptible(Promise.resolve(iterator.next()), this.#signal);
        if (step.done) {
          ended = true;
          return;
        }
        await this.push(step.value);
      }
    } finally {
      // Not awaited: it may wait for the very step that was given up.
      if (!ended) Promise.resolve(iterator.return?.()).catch(() => undefined);
    }
  }

  async #push(batch: Batch): Promise<void> {
    this.#throwIfEnded();
    const held = await this.#holding();
    try {
      for (;;) {
        const missing = await this.#exclusive.run(() => this.#add(held, batch));
        if (missing === 0) break;
        await this.#grow(missing);
        this.#granted += missing;
      }
    } catch (error) {
      this.#shrink(this.#granted);
      this.#granted = 0;
      throw error;
    }
    await this.#turn();
  }

  /** Adds `batch` if what was granted is enough; else the bytes that are missing. */
  #add(held: HeldRows<Batch>, batch: Batch): number {
    this.#throwIfEnded();
    const needed = held.bytesFor(batch);
    if (needed > this.#granted) return needed - this.#granted;
    const before = held.rows;
    try {
      held.add(batch);
    } catch (error) {
      // The comparator's: the rows are in a state that nobody can go on from.
      this.#fail(error);
      throw error;
    }
    this.#rows += held.rows - before;
    this.#granted -= needed;
    this.#reservation.allocated(needed);
    return 0;
  }

  async #holding(): Promise<HeldRows<Batch>> {
    if (this.#held === undefined) {
      const bytes = this.#kind.workspaceBytes(this.#sizes);
      await this.#grow(bytes, allocatedNone);
      this.#held = this.#kind.hold(this.#sizes);
      this.#reservation.allocated(bytes);
    }
    return this.#held;
  }

  #holdsRows(): boolean {
    return this.#phase !== 'closed' && this.#held !== undefined && this.#held.rows > 0;
  }

  async #spillHeld(): Promise<void> {
    const held = this.#held;
    if (!this.#holdsRows() || held === undefined) return;
    const bytes = held.bytes;
    if (this.#merge === undefined) {
      await this.#runs.append(await Merge.of(held.cursors(0), this.#kind.order));
    } else {
      this.#merge = await this.#spillMerging(this.#merge);
    }
    this.#spills += 1;
    held.clear();
    this.#shrink(bytes);
  }

  /** The merge as it goes on when what it has in memory is on disk. */
  async #spillMerging(merge: Merge<Cursor>): Promise<Merge<Cursor>> {
    const { order } = this.#kind;
    const cursors = merge.cursors;
    const inMemory = cursors.filter((cursor) => cursor.inMemory);
    const rest = cursors.filter((cursor) => !cursor.inMemory);
    if (inMemory.length === 0) return merge;
    // Forks, so that the merge is where it was if the disk is full.
    const forks = inMemory.map((cursor) => cursor.fork());
    const run = await this.#runs.append(new Merge(forks, order));
    // Its rows were pushed after all that lie in the other runs.
    const cursor = this.#runs.cursor(run, this.#runs.count);
    await cursor.load();
    const bytes = this.#kind.readBytes(run);
    this.#reservation.overcommit(bytes, allocatedNone);
    this.#mergeGranted += bytes;
    return new Merge([...rest, cursor], order);
  }

  async *#results(): AsyncGenerator<Batch, void, undefined> {
    try {
      // Pushes that were not awaited come first.
      await this.#pushes.run(() => undefined);
      this.#throwIfEnded();
      await this.#beginMerge();
      const sink = this.#kind.sink(this.#sizes, this.#reuse);
      for (;;) {
        if (!this.#reuse) await this.#renewOutput();
        const batch = await this.#exclusive.run(() => {
          this.#throwIfEnded();
          return collect(this.#merge as Merge<Cursor>, sink);
        });
        this.#throwIfEnded();
        if (batch === undefined) break;
        if (!this.#reuse) this.#reservation.allocated(this.#sizes.batch);
        await this.#turn();
        yield batch;
        this.#throwIfEnded();
      }
    } catch (error) {
      this.#fail(error);
      throw error;
    } finally {
      await this.close();
    }
  }

  async #beginMerge(): Promise<void> {
    for (;;) {
      while (this.#runs.count > this.#fanIn) await this.#mergePass();
      const missing = this.#mergeBytes() - this.#mergeGranted;
      if (missing > 0) {
        await this.#growForMerge(missing);
        continue;
      }
      const begun = await this.#exclusive.run(async () => {
        this.#throwIfEnded();
        // The rows in memory may have become one more run in the meantime.
        if (this.#mergeBytes() > this.#mergeGranted) return false;
        const held = this.#held?.cursors(this.#runs.count) ?? [];
        this.#merge = await Merge.of([...this.#runs.cursors(), ...held], this.#kind.order);
        this.#reservation.allocated(this.#mergeGranted);
        return true;
      });
      if (begun) return;
    }
  }

  /** Memory of the last merge: a buffer for each run, and what the result is put together in. */
  #mergeBytes(): number {
    return this.#runs.readBytes() + (this.#reuse ? 2 : 1) * this.#sizes.batch;
  }

  /** Grows, or, where that is refused, goes for a merge of fewer runs. */
  async #growForMerge(bytes: number): Promise<void> {
    const runs = this.#runs.count;
    if (await this.#growOrOvercommit(bytes, runs <= 2)) {
      this.#mergeGranted += bytes;
      return;
    }
    this.#fanIn = Math.max(2, Math.ceil(runs / 2));
    this.#shrink(this.#mergeGranted);
    this.#mergeGranted = 0;
  }

  /**
   * Grows. Where that is refused: takes what the smallest merge there is cannot do without, a few
   * batches, so that all the work before was not in vain; returns false for any other.
   */
  async #growOrOvercommit(bytes: number, smallest: boolean): Promise<boolean> {
    try {
      await this.#grow(bytes, allocatedNone);
    } catch (error) {
      if (!isResourcesExhausted(error)) throw error;
      if (!smallest) return false;
      this.#reservation.overcommit(bytes, allocatedNone);
    }
    return true;
  }

  /** Merges some runs into one, so that there are fewer. */
  async #mergePass(): Promise<void> {
    // No more than needed: rows that are merged now are written and read once more.
    let size = Math.min(this.#fanIn, this.#runs.count - this.#fanIn + 1);
    size = Math.max(2, size);
    const runs = this.#runs.smallest(size);
    const bytes = this.#runs.readBytes(runs) + this.#runs.writeBytes;
    if (!(await this.#growOrOvercommit(bytes, this.#fanIn === 2))) {
      this.#fanIn = Math.max(2, this.#fanIn >> 1);
      return;
    }
    try {
      const merge = await Merge.of(this.#runs.cursors(runs), this.#kind.order);
      try {
        await this.#runs.replace(runs, merge);
      } finally {
        await merge.close();
      }
      this.#passes += 1;
    } finally {
      this.#shrink(bytes);
    }
  }

  /**
   * Asks again for the memory of a batch of the result before each is made. Those that the reader is
   * done with are garbage by then: asking is what gets it collected when memory is short.
   */
  async #renewOutput(): Promise<void> {
    const bytes = this.#sizes.batch;
    this.#reservation.shrink(bytes);
    if (this.#reservation.tryGrow(bytes)) return;
    if (performance.now() >= this.#noRenewalBefore) {
      try {
        await this.#grow(bytes);
        return;
      } catch (error) {
        if (!isResourcesExhausted(error)) throw error;
        this.#noRenewalBefore = performance.now() + renewInterval;
      }
    }
    // What is short of memory here is its reader: stopping in the last merge would help nobody.
    this.#reservation.overcommit(bytes, allocatedNone);
  }

  async #grow(bytes: number, options?: { alreadyAllocated: number }): Promise<void> {
    try {
      await this.#reservation.grow(bytes, options);
    } catch (error) {
      this.#throwIfEnded();
      throw error;
    }
    this.#throwIfEnded();
  }

  #shrink(bytes: number): void {
    // Closing has given everything back.
    if (!this.#reservation.closed) this.#reservation.shrink(bytes);
  }

  async #turn(): Promise<void> {
    if (performance.now() - this.#lastTurn < turnInterval) return;
    await new Promise(setImmediate);
    this.#lastTurn = performance.now();
  }

  #fail(error: unknown): void {
    if (this.#phase === 'closed') return;
    this.#failure ??= { error };
    // Whoever closes it hears of what goes wrong meanwhile.
    this.close().catch(() => undefined);
  }

  #throwIfEnded(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#phase === 'closed') {
      throw new StateError('ERR_OOM_GUARD_CLOSED', 'The sorter is closed');
    }
  }

  #check(phase: 'filling'): void {
    this.#throwIfEnded();
    if (this.#phase !== phase) {
      throw new StateError(
        'ERR_OOM_GUARD_CLOSED',
        'The sorter takes no more rows: sorted() was called',
      );
    }
  }

  async #close(): Promise<void> {
    this.#phase = 'closed';
    this.#signal?.removeEventListener('abort', this.#aborted);
    try {
      await this.#exclusive.run(async () => {
        this.#held?.clear();
        await this.#merge?.close();
      });
      await this.#runs.close();
      if (this.#ownDirectory) await this.#directory.close();
    } finally {
      this.#merge = undefined;
      this.#held = undefined;
      this.#reservation.close();
    }
  }
}
