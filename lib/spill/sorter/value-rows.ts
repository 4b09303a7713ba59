import { ArgumentRangeError, ArgumentTypeError } from '../../errors';
import type { SpillCodec } from '../codec';
import type { FrameReader } from '../frame-reader';
import type { SpillFile } from '../spill-file';
import { structuredCodec } from '../structured-codec';
import type { Cursor } from './cursor';
import { estimateBytes } from './heap-size';
import type { HeldRows, RowKind, RowSink, SorterSizes } from './row-kind';

/** Options of {@link values}. */
export interface ValueOptions<T> {
  /**
   * Below 0 when `a` comes first, above 0 when `b` does; 0 (or NaN) leaves the two in the order in
   * which they were pushed.
   */
  compare: (a: T, b: T) => number;
  /** How rows are written. Default `structuredCodec()`. */
  codec?: SpillCodec<T[]> | undefined;
  /**
   * What a row takes in memory, bytes: a number for all, or a function. Default an estimate from
   * some rows of each batch.
   */
  sizeOf?: number | ((row: T) => number) | undefined;
}

/** Rows of a batch that are looked at for an estimate. */
const sampleRows = 16;

/** What a row takes on disk and as an object together, for each byte of it on disk. */
const decodedFactor = 4;

/**
 * Rows that are JavaScript values. A batch is an array of them.
 *
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function values<T>(options: ValueOptions<T>): RowKind<T[]> {
  const { compare, codec = structuredCodec<T[]>(), sizeOf } = options;
  if (typeof compare !== 'function') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'compare', compare, 'a function');
  }
  if (sizeOf !== undefined && typeof sizeOf !== 'function') checkRowBytes(sizeOf);
  const order = (a: T, b: T) => compare(a, b) || 0;
  const kind: RowKind<T[], ValueCursor<T>> = {
    location: 'heap',
    codec,
    order: (a, b) => order(a.value as T, b.value as T),
    sizes: (wanted) => wanted,
    workspaceBytes: () => 0,
    hold: (sizes) => new HeldValues(sizes, order, sizeOf),
    readBytes: (run) => decodedFactor * run.largestBatchBytes,
    openRun: (run, rank) => new RunCursor(run, rank),
    sink: (sizes) => new ValueSink<T>(sizes),
  };
  return kind;
}

function checkRowBytes(bytes: number): number {
  if (!(Number.isFinite(bytes) && bytes > 0)) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'sizeOf',
      bytes,
      'a number of bytes above 0, or a function that returns one',
    );
  }
  return bytes;
}

/** A position in sorted values. */
abstract class ValueCursor<T> implements Cursor {
  readonly rank: number;
  abstract readonly inMemory: boolean;
  value: T | undefined;
  /** What a row of this sequence takes, bytes. */
  rowBytes = 1;
  protected rows: readonly T[] = [];
  protected at = -1;

  constructor(rank: number) {
    this.rank = rank;
  }

  abstract load(): Promise<boolean>;
  abstract fork(): this;

  advance(): boolean {
    this.at += 1;
    if (this.at >= this.rows.length) return false;
    this.value = this.rows[this.at];
    return true;
  }

  async close(): Promise<void> {
    this.rows = [];
    this.value = undefined;
  }
}

class BlockCursor<T> extends ValueCursor<T> {
  override readonly inMemory = true;

  readonly #block: ValueBlock<T>;

  constructor(block: ValueBlock<T>, rank: number) {
    super(rank);
    this.#block = block;
    this.rows = block.rows;
    this.rowBytes = block.bytes / block.rows.length;
  }

  override async load(): Promise<boolean> {
    return this.advance();
  }

  override fork(): this {
    const copy = new BlockCursor(this.#block, this.rank);
    copy.at = this.at - 1;
    copy.advance();
    return copy as this;
  }
}

class RunCursor<T> extends ValueCursor<T> {
  override readonly inMemory = false;
  readonly #run: SpillFile<T[]>;
  readonly #reader: FrameReader;

  constructor(run: SpillFile<T[]>, rank: number) {
    super(rank);
    this.#run = run;
    this.#reader = run.openReader();
  }

  override async load(): Promise<boolean> {
    // A Buffer of its own each time: Buffers and typed arrays within the rows become views of it.
    const bytes = await this.#reader.next();
    if (bytes === undefined) return false;
    this.rows = this.#run.decode(bytes);
    this.rowBytes = (decodedFactor * bytes.length) / this.rows.length;
    this.at = -1;
    return this.advance();
  }

  override fork(): this {
    throw new TypeError('a run is read by one cursor at a time');
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#reader.close();
  }
}

interface ValueBlock<T> {
  rows: T[];
  bytes: number;
}

class HeldValues<T> implements HeldRows<T[], ValueCursor<T>> {
  readonly #sizes: SorterSizes;
  readonly #order: (a: T, b: T) => number;
  readonly #sizeOf: number | ((row: T) => number) | undefined;
  #sorted: ValueBlock<T>[] = [];
  #open: ValueBlock<T> = { rows: [], bytes: 0 };
  #measured: { batch: T[]; bytes: number } | undefined;
  bytes = 0;
  rows = 0;

  constructor(
    sizes: SorterSizes,
    order: (a: T, b: T) => number,
    sizeOf: number | ((row: T) => number) | undefined,
  ) {
    this.#sizes = sizes;
    this.#order = order;
    this.#sizeOf = sizeOf;
  }

  bytesFor(batch: T[]): number {
    if (!Array.isArray(batch)) {
      throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'batch', batch, 'an array');
    }
    // Asked more than once for each batch, and measuring takes a while.
    if (this.#measured?.batch !== batch) {
      this.#measured = { batch, bytes: this.#measure(batch) };
    }
    return this.#measured.bytes;
  }

  add(batch: T[]): void {
    const bytes = this.bytesFor(batch);
    this.#measured = undefined;
    const each = bytes / batch.length;
    for (let at = 0; at < batch.length; ) {
      const fitting = Math.ceil((this.#sizes.block - this.#open.bytes) / each);
      const taken = batch.slice(at, at + Math.max(1, fitting));
      for (const row of taken) this.#open.rows.push(row);
      this.#open.bytes += taken.length * each;
      at += taken.length;
      if (this.#open.bytes >= this.#sizes.block) this.#closeOpen();
    }
    this.bytes += bytes;
    this.rows += batch.length;
  }

  cursors(rank: number): ValueCursor<T>[] {
    this.#closeOpen();
    return this.#sorted.map((block, index) => new BlockCursor(block, rank + index));
  }

  clear(): void {
    this.#sorted = [];
    this.#open = { rows: [], bytes: 0 };
    this.bytes = 0;
    this.rows = 0;
  }

  #measure(batch: readonly T[]): number {
    const sizeOf = this.#sizeOf;
    if (typeof sizeOf === 'number') return Math.ceil(sizeOf * batch.length);
    if (sizeOf !== undefined) {
      let bytes = 0;
      for (const row of batch) bytes += checkRowBytes(sizeOf(row));
      return Math.ceil(bytes);
    }
    const step = Math.max(1, Math.floor(batch.length / sampleRows));
    let bytes = 0;
    let sampled = 0;
    for (let row = 0; row < batch.length; row += step, sampled++) {
      bytes += estimateBytes(batch[row]);
    }
    return sampled === 0 ? 0 : Math.ceil((bytes / sampled) * batch.length);
  }

  #closeOpen(): void {
    const block = this.#open;
    if (block.rows.length === 0) return;
    this.#open = { rows: [], bytes: 0 };
    block.rows.sort(this.#order);
    this.#sorted.push(block);
  }
}

class ValueSink<T> implements RowSink<T[], ValueCursor<T>> {
  readonly #size: number;
  #rows: T[] = [];
  #bytes = 0;

  constructor({ batch }: SorterSizes) {
    this.#size = batch;
  }

  get rows(): number {
    return this.#rows.length;
  }

  add(cursor: ValueCursor<T>): boolean {
    if (this.#bytes >= this.#size) return false;
    this.#rows.push(cursor.value as T);
    this.#bytes += cursor.rowBytes;
    return true;
  }

  take(): T[] {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    return rows;
  }
}
