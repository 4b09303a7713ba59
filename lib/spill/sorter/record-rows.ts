import { ArgumentTypeError } from '../../errors';
import type { SpillCodec } from '../codec';
import { FrameReader } from '../frame-reader';
import { checkRecords, fixedRecordCodec, prefixedRecordCodec } from '../record-codecs';
import {
  fixedLayout,
  prefixedLayout,
  type RecordLayout,
  type RecordPrefix,
} from '../record-layout';
import type { SpillFile } from '../spill-file';
import type { Cursor } from './cursor';
import { blockFor, mostRecords, offsetBytes, RecordBlock } from './record-block';
import { type RecordOrder, type RecordOrderOptions, recordOrder } from './record-order';
import type { HeldRows, RowKind, RowSink, SorterSizes } from './row-kind';

/**
 * Rows that are records of one size in Buffers. A batch is any number of them side by side; it is
 * copied when it is pushed, and may be used again after that.
 *
 * @param options `recordBytes`, and `key` (compared byte by byte) or `compare`
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function fixedRecords(
  options: { recordBytes: number } & RecordOrderOptions,
): RowKind<Buffer> {
  const layout = fixedLayout(options.recordBytes);
  return recordKind(layout, recordOrder(layout, options), fixedRecordCodec(options.recordBytes));
}

/**
 * Rows that are records in Buffers which begin with their length. A batch is any number of whole
 * records side by side; it is copied when it is pushed.
 *
 * @param options `prefix` (default `'uint32le'`), and `key` (compared byte by byte) or `compare`
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function prefixedRecords(
  options: { prefix?: RecordPrefix | undefined } & RecordOrderOptions,
): RowKind<Buffer> {
  const layout = prefixedLayout(options.prefix ?? 'uint32le');
  return recordKind(layout, recordOrder(layout, options), prefixedRecordCodec(options.prefix));
}

function recordKind(
  layout: RecordLayout,
  order: RecordOrder,
  codec: SpillCodec<Buffer>,
): RowKind<Buffer> {
  const { compareTied } = order;
  const kind: RowKind<Buffer, RecordCursor> = {
    location: 'native',
    codec,
    order: (a, b) =>
      a.leading - b.leading || compareTied(a.bytes, a.start, a.end, b.bytes, b.start, b.end),
    sizes: ({ block, batch }) => ({
      block: Math.max(blockFor(layout.recordBytes ?? 0), Math.ceil(block / 8) * 8),
      batch: Math.max(layout.recordBytes ?? 0, Math.ceil(batch / 8) * 8),
    }),
    workspaceBytes: ({ block }) => mostRecords(block, layout) * Float64Array.BYTES_PER_ELEMENT,
    hold: (sizes) => new HeldRecords(sizes, layout, order),
    readBytes: (run) => FrameReader.bufferBytes(run.largestBatchBytes),
    openRun: (run, rank) => new RunCursor(run, rank, layout, order),
    sink: (sizes, reuse) => new RecordSink(sizes.batch, reuse),
  };
  return kind;
}

/** A position in sorted records. */
abstract class RecordCursor implements Cursor {
  readonly rank: number;
  abstract readonly inMemory: boolean;
  /** What the current record lies in. */
  bytes: Buffer = nothing;
  words: Int32Array = noWords;
  start = 0;
  end = 0;
  leading = 0;
  protected readonly layout: RecordLayout;
  protected readonly recordOrder: RecordOrder;

  constructor(rank: number, layout: RecordLayout, order: RecordOrder) {
    this.rank = rank;
    this.layout = layout;
    this.recordOrder = order;
  }

  abstract advance(): boolean;
  abstract load(): Promise<boolean>;
  abstract fork(): this;
  abstract close(): Promise<void>;

  protected goTo(start: number): void {
    this.start = start;
    this.end = this.layout.endOf(this.bytes, start);
    this.leading = this.recordOrder.leading(this.bytes, start, this.end);
  }

  protected use(bytes: Buffer): void {
    this.bytes = bytes;
    this.words =
      bytes.byteOffset % 4 === 0
        ? new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2)
        : noWords;
  }
}

const nothing = Buffer.alloc(0);
const noWords = new Int32Array(0);

class BlockCursor extends RecordCursor {
  override readonly inMemory = true;
  readonly #offsets: Uint32Array;
  #at = -1;

  constructor(
    bytes: Buffer,
    offsets: Uint32Array,
    rank: number,
    layout: RecordLayout,
    order: RecordOrder,
  ) {
    super(rank, layout, order);
    this.#offsets = offsets;
    this.use(bytes);
  }

  override advance(): boolean {
    this.#at += 1;
    if (this.#at >= this.#offsets.length) return false;
    this.goTo(this.#offsets[this.#at] as number);
    return true;
  }

  override async load(): Promise<boolean> {
    return this.advance();
  }

  override fork(): this {
    const { rank, layout, recordOrder } = this;
    const copy = new BlockCursor(this.bytes, this.#offsets, rank, layout, recordOrder);
    copy.#at = this.#at - 1;
    copy.advance();
    return copy as this;
  }

  override async close(): Promise<void> {
    this.use(nothing);
  }
}

class RunCursor extends RecordCursor {
  override readonly inMemory = false;
  readonly #reader: FrameReader;
  readonly #buffer: Buffer;
  readonly #run: SpillFile<Buffer>;

  constructor(run: SpillFile<Buffer>, rank: number, layout: RecordLayout, order: RecordOrder) {
    super(rank, layout, order);
    this.#run = run;
    this.#reader = run.openReader();
    this.#buffer = Buffer.allocUnsafeSlow(FrameReader.bufferBytes(run.largestBatchBytes));
  }

  override advance(): boolean {
    if (this.end >= this.bytes.length) return false;
    this.goTo(this.end);
    return true;
  }

  override async load(): Promise<boolean> {
    const bytes = await this.#reader.next(this.#buffer);
    if (bytes === undefined) return false;
    this.use(this.#run.decode(bytes));
    this.goTo(0);
    return true;
  }

  override fork(): this {
    throw new TypeError('a run is read by one cursor at a time');
  }

  override close(): Promise<void> {
    this.use(nothing);
    return this.#reader.close();
  }
}

/** Blocks of records: sorted as they become full, and the one that is being filled. */
class HeldRecords implements HeldRows<Buffer, RecordCursor> {
  readonly #sizes: SorterSizes;
  readonly #layout: RecordLayout;
  readonly #order: RecordOrder;
  readonly #workspace: Float64Array;
  #sorted: { block: RecordBlock; offsets: Uint32Array }[] = [];
  #open: RecordBlock | undefined;
  #bytes = 0;
  #rows = 0;

  constructor(sizes: SorterSizes, layout: RecordLayout, order: RecordOrder) {
    this.#sizes = sizes;
    this.#layout = layout;
    this.#order = order;
    this.#workspace = new Float64Array(mostRecords(sizes.block, layout));
  }

  get bytes(): number {
    return this.#bytes;
  }

  get rows(): number {
    return this.#rows;
  }

  bytesFor(batch: Buffer): number {
    if (!(batch instanceof Uint8Array)) {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'batch',
        batch,
        'a Buffer or Uint8Array of records',
      );
    }
    const records = checkRecords(batch, this.#layout);
    const free = this.#open?.free ?? 0;
    const room = this.#open?.room ?? 0;
    const { recordBytes } = this.#layout;
    if (recordBytes !== undefined) {
      const each = recordBytes + offsetBytes;
      const left = records - Math.min(room, Math.floor(free / each));
      return Math.max(0, Math.ceil(left / this.#mostIn(this.#sizes.block))) * this.#sizes.block;
    }
    return this.#bytesForPrefixed(batch, free, room);
  }

  add(batch: Buffer): void {
    const { recordBytes } = this.#layout;
    const end = batch.byteLength;
    if (recordBytes === undefined) {
      for (let at = 0; at < end; ) {
        const next = this.#layout.endOf(batch, at);
        this.#blockWith(next - at).add(batch, at, next);
        this.#rows += 1;
        at = next;
      }
      return;
    }
    for (let at = 0; at < end; ) {
      const block = this.#blockWith(recordBytes);
      const fitting = Math.min(block.room, Math.floor(block.free / (recordBytes + offsetBytes)));
      const records = Math.min(fitting, (end - at) / recordBytes);
      block.addFixed(batch, at, records, recordBytes);
      this.#rows += records;
      at += records * recordBytes;
    }
  }

  cursors(rank: number): RecordCursor[] {
    this.#closeOpen();
    return this.#sorted.map(
      ({ block, offsets }, index) =>
        new BlockCursor(block.bytes, offsets, rank + index, this.#layout, this.#order),
    );
  }

  clear(): void {
    this.#sorted = [];
    this.#open = undefined;
    this.#bytes = 0;
    this.#rows = 0;
  }

  #bytesForPrefixed(batch: Uint8Array, freeNow: number, roomNow: number): number {
    let free = freeNow;
    let room = roomNow;
    let bytes = 0;
    for (let at = 0; at < batch.byteLength; ) {
      const next = this.#layout.endOf(batch, at);
      const each = next - at + offsetBytes;
      if (room === 0 || each > free) {
        free = this.#blockBytes(next - at);
        room = this.#mostIn(free);
        bytes += free;
      }
      free -= each;
      room -= 1;
      at = next;
    }
    return bytes;
  }

  /** Size of the block that is begun for a record. */
  #blockBytes(recordBytes: number): number {
    return Math.max(this.#sizes.block, blockFor(recordBytes));
  }

  /** No more records than the workspace has room for, however large the block. */
  #mostIn(blockBytes: number): number {
    return Math.min(mostRecords(blockBytes, this.#layout), this.#workspace.length);
  }

  #blockWith(recordBytes: number): RecordBlock {
    if (this.#open !== undefined && this.#open.free >= recordBytes + offsetBytes) {
      return this.#open;
    }
    this.#closeOpen();
    const size = this.#blockBytes(recordBytes);
    this.#open = new RecordBlock(size, this.#mostIn(size));
    this.#bytes += size;
    return this.#open;
  }

  #closeOpen(): void {
    const block = this.#open;
    if (block === undefined) return;
    this.#open = undefined;
    const offsets = block.sort(this.#layout, this.#order, this.#workspace);
    this.#sorted.push({ block, offsets });
  }
}

/** Copying fewer bytes than this one by one is quicker than a call. */
const loopBytes = 96;

class RecordSink implements RowSink<Buffer, RecordCursor> {
  readonly #size: number;
  /** Two in turn: one is written to disk while the other is filled. */
  readonly #spare: Buffer[] | undefined;
  #bytes: Buffer = nothing;
  #words: Int32Array = noWords;
  #end = 0;
  #rows = 0;

  constructor(size: number, reuse: boolean) {
    this.#size = size;
    this.#spare = reuse ? [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)] : undefined;
  }

  get rows(): number {
    return this.#rows;
  }

  add({ bytes, words, start, end }: RecordCursor): boolean {
    const length = end - start;
    if (this.#end + length > this.#bytes.length && !this.#begin(length)) return false;
    const at = this.#end;
    if (((start | length | at) & 3) === 0 && words.length > 0) {
      const target = this.#words;
      let to = at >> 2;
      for (let from = start >> 2; from < end >> 2; from++) target[to++] = words[from] as number;
    } else if (length < loopBytes) {
      const target = this.#bytes;
      let to = at;
      for (let from = start; from < end; from++) target[to++] = bytes[from] as number;
    } else {
      this.#bytes.set(bytes.subarray(start, end), at);
    }
    this.#end = at + length;
    this.#rows += 1;
    return true;
  }

  take(): Buffer {
    const batch = this.#bytes.subarray(0, this.#end);
    this.#bytes = nothing;
    this.#words = noWords;
    this.#end = 0;
    this.#rows = 0;
    return batch;
  }

  /** Begins a batch with a record of `length` bytes; false when one is under way. */
  #begin(length: number): boolean {
    if (this.#rows > 0) return false;
    const spare = length <= this.#size ? this.#spare?.shift() : undefined;
    if (spare !== undefined) this.#spare?.push(spare);
    this.#bytes = spare ?? Buffer.allocUnsafeSlow(Math.max(this.#size, length));
    this.#words = new Int32Array(this.#bytes.buffer, 0, this.#bytes.length >> 2);
    return true;
  }
}
