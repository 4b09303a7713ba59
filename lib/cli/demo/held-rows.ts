/**
 * Where a job keeps the rows it has read: packed in Buffers (memory of malloc's), or as objects
 * (memory of V8's).
 */
import {
  type ChunkBatch,
  type LineItem,
  lineItemHeapBytes,
  packBatch,
  type RecordBlock,
  recordBlock,
  recordBytes,
  recordDoubles,
  sortKey,
  toLineItem,
  writeLineItem,
} from './lineitem';
import type { Cursor } from './merge';
import { copyRecord } from './sorted-runs';

/** The rows a job holds, in sorted batches. */
export interface HeldRows {
  /** Where the bytes lie, in a reservation's words. */
  readonly where: 'native' | 'heap';
  /** Rows of a batch. */
  readonly batchRows: number;
  /** What a batch of `rows` rows takes, bytes. */
  bytesFor(rows: number): number;
  /** Takes the rows of `batch` in. */
  add(batch: ChunkBatch): void;
  /** Gives all batches out as sorted sequences, and holds none any more. */
  takeAll(): Cursor[];
}

/** Packed records in a Buffer for each batch, and their order. */
export function holdInBuffers(): HeldRows {
  let held: Cursor[] = [];
  return {
    where: 'native',
    batchRows: 32_768,
    bytesFor: (rows) => rows * (recordBytes + Uint16Array.BYTES_PER_ELEMENT),
    add(batch) {
      // Not from Node's pool of small slices: an allocation of its own, from malloc.
      const block = recordBlock(Buffer.allocUnsafeSlow(batch.rows * recordBytes));
      packBatch(batch, block);
      const order = sortedOrder(batch.rows, (row) => block.keys[row * recordDoubles] as number);
      held.push(new BufferCursor(block, order));
    },
    takeAll() {
      const all = held;
      held = [];
      return all;
    },
  };
}

/** An array of objects for each batch. */
export function holdAsObjects(): HeldRows {
  const rowsOfBatch = 8_192;
  const scratch = recordBlock(Buffer.allocUnsafeSlow(rowsOfBatch * recordBytes));
  let held: Cursor[] = [];
  return {
    where: 'heap',
    batchRows: rowsOfBatch,
    bytesFor: (rows) => rows * lineItemHeapBytes,
    add(batch) {
      packBatch(batch, scratch);
      const order = sortedOrder(batch.rows, (row) => scratch.keys[row * recordDoubles] as number);
      held.push(new ObjectCursor(Array.from(order, (row) => toLineItem(scratch, row))));
    },
    takeAll() {
      const all = held;
      held = [];
      return all;
    },
  };
}

/** Room for a row's number below its key: 38 bits of key and 15 of row fit a double. */
const rowFactor = 2 ** 15;

/** Row numbers by ascending key. A typed array of numbers sorts natively, without a callback. */
function sortedOrder(rows: number, keyOf: (row: number) => number): Uint16Array {
  const packed = new Float64Array(rows);
  for (let row = 0; row < rows; row++) packed[row] = keyOf(row) * rowFactor + row;
  packed.sort();
  const order = new Uint16Array(rows);
  for (let i = 0; i < rows; i++) order[i] = (packed[i] as number) % rowFactor;
  return order;
}

class BufferCursor implements Cursor {
  key = 0;
  readonly #block: RecordBlock;
  readonly #order: Uint16Array;
  #at = -1;
  #row = 0;

  constructor(block: RecordBlock, order: Uint16Array) {
    this.#block = block;
    this.#order = order;
  }

  copyTo(target: RecordBlock, index: number): void {
    copyRecord(this.#block, this.#row, target, index);
  }

  advance(): boolean {
    if (++this.#at >= this.#order.length) return false;
    this.#row = this.#order[this.#at] as number;
    this.key = this.#block.keys[this.#row * recordDoubles] as number;
    return true;
  }

  async load(): Promise<boolean> {
    return this.advance();
  }
}

class ObjectCursor implements Cursor {
  key = 0;
  readonly #items: LineItem[];
  #at = -1;

  constructor(items: LineItem[]) {
    this.#items = items;
  }

  copyTo(target: RecordBlock, index: number): void {
    writeLineItem(this.#items[this.#at] as LineItem, target, index);
  }

  advance(): boolean {
    const item = this.#items[++this.#at];
    if (item === undefined) return false;
    this.key = sortKey(item.shipdate, item.orderkey, item.linenumber);
    return true;
  }

  async load(): Promise<boolean> {
    return this.advance();
  }
}
