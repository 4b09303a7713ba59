/** K-way merge of sorted sequences of records. */
import { type RecordBlock, recordBlock, recordBytes } from './lineitem';

/** A position in a sorted sequence of records. */
export interface Cursor {
  /** Sort key of the current record. */
  readonly key: number;
  /** Copies the current record to record number `index` of `block`. */
  copyTo(block: RecordBlock, index: number): void;
  /** Goes to the next record; false at the end of what is in memory. */
  advance(): boolean;
  /** Brings more into memory and goes to its first record; false at the end. Called first, too. */
  load(): Promise<boolean>;
}

/** Records of an output block: 256 KiB at 104 bytes a record, and about a millisecond of work. */
export const outputRows = 2_520;

/** Memory that a merge takes beside its cursors, bytes. */
export const mergeBytes = outputRows * recordBytes;

/** Records in their final order. `bytes` is valid until the next block is asked for. */
export interface SortedBlock extends RecordBlock {
  /** Records in the block. */
  rows: number;
}

/** Merges sorted sequences into one. Keys are unique, so there is one right order. */
export async function* merge(cursors: readonly Cursor[]): AsyncGenerator<SortedBlock> {
  const heap: Cursor[] = [];
  for (const cursor of cursors) {
    if (await cursor.load()) pushUp(heap, cursor);
  }
  const block = recordBlock(Buffer.alloc(mergeBytes));
  let rows = 0;
  for (let first = heap[0]; first !== undefined; first = heap[0]) {
    first.copyTo(block, rows++);
    if (rows === outputRows) {
      yield { ...block, rows };
      rows = 0;
    }
    if (!first.advance() && !(await first.load())) {
      const last = heap.pop() as Cursor;
      if (heap.length === 0) break;
      heap[0] = last;
    }
    sinkDown(heap);
  }
  if (rows > 0) yield { ...block, rows, bytes: block.bytes.subarray(0, rows * recordBytes) };
}

function pushUp(heap: Cursor[], cursor: Cursor): void {
  let at = heap.push(cursor) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as Cursor;
    if (above.key <= cursor.key) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = cursor;
}

/** Puts the first cursor, whose key has grown, where it belongs. */
function sinkDown(heap: Cursor[]): void {
  const cursor = heap[0] as Cursor;
  const { key } = cursor;
  const size = heap.length;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= size) break;
    let smaller = heap[child] as Cursor;
    const right = heap[child + 1];
    if (right !== undefined && right.key < smaller.key) {
      smaller = right;
      child++;
    }
    if (key <= smaller.key) break;
    heap[at] = smaller;
    at = child;
  }
  heap[at] = cursor;
}
