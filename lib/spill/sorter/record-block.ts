import type { RecordLayout } from '../record-layout';
import { type KeyRange, keyLength, type RecordOrder } from './record-order';

/** Bytes of a record's place in the list of a block. */
export const offsetBytes = Uint32Array.BYTES_PER_ELEMENT;

/** A block has at most as many records as half of it could hold of 4 bytes each. */
export function mostRecords(blockBytes: number, layout: RecordLayout): number {
  const byteBound = Math.floor(blockBytes / (layout.headBytes + offsetBytes));
  return Math.max(1, Math.min(byteBound, Math.floor(blockBytes / 16), rowFactor));
}

/** The smallest block that a record of `bytes` fits in. */
export function blockFor(bytes: number): number {
  return Math.ceil((bytes + offsetBytes) / 8) * 8;
}

/** Room for a record's number below 32 bits of its key: together they fit a double. */
const rowFactor = 2 ** 20;
const prefixBytes = 4;
const prefixMax = 2 ** 32 - 1;

/**
 * Records in one allocation: they fill it from the front, the list of where they begin from the
 * back, until the two meet.
 */
export class RecordBlock {
  readonly bytes: Buffer;
  readonly #offsets: Uint32Array;
  readonly #most: number;
  #end = 0;
  #records = 0;

  /** @param size bytes, a multiple of 8 */
  constructor(size: number, most: number) {
    // Not from Node's pool of small slices: an allocation of its own, from malloc, aligned.
    this.bytes = Buffer.allocUnsafeSlow(size);
    this.#offsets = new Uint32Array(this.bytes.buffer, 0, size / offsetBytes);
    this.#most = most;
  }

  get records(): number {
    return this.#records;
  }

  /** Bytes left for records and the list. */
  get free(): number {
    return this.#records >= this.#most
      ? 0
      : this.bytes.length - this.#end - this.#records * offsetBytes;
  }

  /** How many more records fit at most, whatever their size. */
  get room(): number {
    return this.#most - this.#records;
  }

  /** Adds `records` records of `recordBytes` bytes each that lie side by side; they must fit. */
  addFixed(source: Uint8Array, from: number, records: number, recordBytes: number): void {
    const bytes = records * recordBytes;
    this.bytes.set(source.subarray(from, from + bytes), this.#end);
    for (let i = 0; i < records; i++) this.#note(this.#end + i * recordBytes);
    this.#end += bytes;
  }

  /** Adds one record, which must fit. */
  add(source: Uint8Array, from: number, to: number): void {
    this.bytes.set(source.subarray(from, to), this.#end);
    this.#note(this.#end);
    this.#end += to - from;
  }

  /** Where the records begin, in order. Sorts; nothing can be added after it. */
  sort(layout: RecordLayout, order: RecordOrder, workspace: Float64Array): Uint32Array {
    const all = this.#offsets;
    const arrived = all.subarray(all.length - this.#records).reverse();
    const packed = workspace.subarray(0, this.#records);
    const { bytes } = this;
    const compare = (x: number, y: number) =>
      order.compare(bytes, x, layout.endOf(bytes, x), bytes, y, layout.endOf(bytes, y)) || x - y;
    if (order.key === undefined) {
      packed.set(arrived);
      packed.sort(compare);
    } else {
      sortByKey(bytes, arrived, packed, layout, order.key, compare);
    }
    arrived.set(packed);
    return arrived;
  }

  #note(offset: number): void {
    this.#records += 1;
    this.#offsets[this.#offsets.length - this.#records] = offset;
  }
}

/**
 * Fills `packed` with the offsets of `arrived`, in order. A typed array of numbers sorts natively,
 * without a callback: numbers made of 32 bits of the key, behind what all keys have in common, and
 * the record's place. Only where those 32 bits are equal keys have to be compared.
 */
function sortByKey(
  bytes: Buffer,
  arrived: Uint32Array,
  packed: Float64Array,
  layout: RecordLayout,
  key: KeyRange,
  compare: (x: number, y: number) => number,
): void {
  const common = commonPrefix(bytes, arrived, layout, key);
  for (let row = 0; row < arrived.length; row++) {
    const start = arrived[row] as number;
    const length = keyLength(key, start, layout.endOf(bytes, start));
    const prefix = prefixAt(bytes, start + key.offset + common, length - common);
    packed[row] = (key.descending ? prefixMax - prefix : prefix) * rowFactor + row;
  }
  packed.sort();
  // Keys of one length that end within the 32 bits are equal where those are.
  const decided = key.uniform && key.most <= common + prefixBytes;
  let tieStart = 0;
  let tied = -1;
  for (let i = 0; i < packed.length; i++) {
    const value = packed[i] as number;
    const row = value % rowFactor;
    const prefix = value - row;
    packed[i] = arrived[row] as number;
    if (decided || prefix === tied) continue;
    if (i - tieStart > 1) packed.subarray(tieStart, i).sort(compare);
    tieStart = i;
    tied = prefix;
  }
  if (!decided && packed.length - tieStart > 1) packed.subarray(tieStart).sort(compare);
}

/** How many bytes all keys begin with in common. */
function commonPrefix(
  bytes: Buffer,
  offsets: Uint32Array,
  layout: RecordLayout,
  key: KeyRange,
): number {
  const first = offsets[0] as number;
  let common = keyLength(key, first, layout.endOf(bytes, first));
  for (let row = 1; row < offsets.length && common > 0; row++) {
    const start = offsets[row] as number;
    const most = Math.min(common, keyLength(key, start, layout.endOf(bytes, start)));
    let same = 0;
    const i = first + key.offset;
    const j = start + key.offset;
    while (same < most && bytes[i + same] === bytes[j + same]) same++;
    common = same;
  }
  return common;
}

/** Four bytes of a key as a number, zeros behind its end. */
function prefixAt(bytes: Buffer, from: number, length: number): number {
  let value = 0;
  for (let i = 0; i < prefixBytes; i++) {
    value = value * 256 + (i < length ? (bytes[from + i] as number) : 0);
  }
  return value;
}
