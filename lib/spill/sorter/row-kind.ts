import type { MemoryLocation } from '../../pool';
import type { SpillCodec } from '../codec';
import type { SpillFile } from '../spill-file';
import type { Cursor } from './cursor';

/** Sizes that an `ExternalSorter` works with, bytes. */
export interface SorterSizes {
  /** Rows are sorted in blocks of this size as they come. */
  block: number;
  /** Batches of runs on disk and of the result. */
  batch: number;
}

/** Rows that were pushed and are held in memory. */
export interface HeldRows<Batch, C extends Cursor = Cursor> {
  /** Bytes that they take. */
  readonly bytes: number;
  readonly rows: number;
  /**
   * Bytes that have to be reserved before `batch` is added; less as others are added, more after
   * `takeAll`.
   *
   * @throws ArgumentTypeError or ArgumentRangeError when it is no batch of this kind
   */
  bytesFor(batch: Batch): number;
  /** Adds a batch. Synchronous. */
  add(batch: Batch): void;
  /** The rows as sorted sequences whose ranks begin at `rank`. They stay held, too. */
  cursors(rank: number): C[];
  /** Holds none any more. */
  clear(): void;
}

/** Where sorted rows are put together to batches. */
export interface RowSink<Batch, C extends Cursor = Cursor> {
  readonly rows: number;
  /** Adds the row that `cursor` is on; false when there is no room for it. The first always fits. */
  add(cursor: C): boolean;
  /** The rows since the last `take`. */
  take(): Batch;
}

/**
 * What an `ExternalSorter` sorts: made by `fixedRecords`, `prefixedRecords` and `values`. The rest of
 * the sorter does not know how rows lie in memory.
 */
export interface RowKind<Batch, C extends Cursor = Cursor> {
  /** Where rows lie that are held in memory. */
  readonly location: MemoryLocation;
  readonly codec: SpillCodec<Batch>;
  /** The order of rows. Passed on as a function: it needs no `this`. */
  order(a: C, b: C): number;
  /** `sizes` as this kind needs them: at least a row. */
  sizes(wanted: SorterSizes): SorterSizes;
  /** Memory that sorting takes beside the rows, bytes. */
  workspaceBytes(sizes: SorterSizes): number;
  hold(sizes: SorterSizes): HeldRows<Batch, C>;
  /** Memory that reading a run takes, bytes. */
  readBytes(run: SpillFile<Batch>): number;
  openRun(run: SpillFile<Batch>, rank: number): C;
  /** @param reuse whether a batch may be overwritten by the one after the next */
  sink(sizes: SorterSizes, reuse: boolean): RowSink<Batch, C>;
}
