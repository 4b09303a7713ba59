/**
 * One line item in memory: as a packed record of fixed width, and as a JavaScript object. Both
 * jobs read, spill and hash records, so that their results can be compared to the byte.
 */
import { createRequire } from 'node:module';
import type { DuckDBConnection, DuckDBDataChunk } from '@duckdb/node-api';
import { dictionaries } from './dataset';

/**
 * A record is 26 words of 32 bits:
 *
 *     0..1   sort key, a double
 *     2..12  integers, in the order of `integerColumns`
 *     13     four dictionary codes, a byte each, in the order of `codedColumns`
 *     14..25 comment, 4 pieces of 12 bytes of ASCII, filled up with zeros
 */
export const recordWords = 26;
/** Size of a record, bytes. */
export const recordBytes = recordWords * 4;
/** Size of a record in doubles, for finding the sort keys. */
export const recordDoubles = recordWords / 2;

const firstInteger = 2;
const codesWord = 13;
const commentWord = 14;
const commentPieces = 4;
const pieceBytes = 12;
const pieceWords = pieceBytes / 4;
const commentBytes = commentPieces * pieceBytes;

const epoch = "DATE '1992-01-01'";

const integerColumns = [
  'l_orderkey',
  'l_partkey',
  'l_suppkey',
  'l_linenumber',
  'l_quantity::INTEGER',
  // In cents and hundredths: whole numbers add up exactly, in whatever order.
  '(l_extendedprice * 100)::INTEGER',
  '(l_discount * 100)::INTEGER',
  '(l_tax * 100)::INTEGER',
  // In days.
  `(l_shipdate - ${epoch})::INTEGER`,
  `(l_commitdate - ${epoch})::INTEGER`,
  `(l_receiptdate - ${epoch})::INTEGER`,
];

/** Words of a record that other modules ask for. */
export const word = {
  orderkey: 2,
  linenumber: 5,
  quantity: 6,
  price: 7,
  discount: 8,
  shipdate: 10,
  codes: codesWord,
} as const;

const codedColumns = Object.entries(dictionaries).map(
  ([column, values]) => `${column}::ENUM(${values.map((value) => `'${value}'`).join(', ')})`,
);

/**
 * A comment has at most 44 bytes. DuckDB keeps strings of up to 12 bytes within the vector, where
 * they can be copied from; decoding each string by itself would take longer than all the rest.
 */
const commentColumns = Array.from(
  { length: commentPieces },
  (_, piece) => `substr(l_comment, ${piece * pieceBytes + 1}, ${pieceBytes})`,
);

const columns = [...integerColumns, ...codedColumns, ...commentColumns];

/** Some of DuckDB's chunks, not packed yet. */
export interface ChunkBatch {
  chunks: DuckDBDataChunk[];
  rows: number;
}

/** Streams the file in batches of about `rows` rows. */
export async function* readBatches(
  connection: DuckDBConnection,
  file: string,
  rows: number,
): AsyncGenerator<ChunkBatch> {
  const result = await connection.stream(
    `SELECT ${columns.join(', ')} FROM read_parquet('${file.replaceAll("'", "''")}')`,
  );
  let batch: ChunkBatch = { chunks: [], rows: 0 };
  for (;;) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) break;
    if (batch.rows > 0 && batch.rows + chunk.rowCount > rows) {
      yield batch;
      batch = { chunks: [], rows: 0 };
    }
    batch.chunks.push(chunk);
    batch.rows += chunk.rowCount;
  }
  if (batch.rows > 0) yield batch;
}

/** Records side by side in one stretch of memory, seen as words, doubles and bytes. */
export interface RecordBlock {
  words: Int32Array;
  keys: Float64Array;
  bytes: Buffer;
}

/** Views of `bytes`, which must begin at a multiple of 8 in its ArrayBuffer. */
export function recordBlock(bytes: Buffer): RecordBlock {
  const { buffer, byteOffset, byteLength } = bytes;
  return {
    bytes,
    words: new Int32Array(buffer, byteOffset, byteLength >> 2),
    keys: new Float64Array(buffer, byteOffset, byteLength >> 3),
  };
}

/** Packs a batch into the first records of `block`, in the order it came. */
export function packBatch(batch: ChunkBatch, block: RecordBlock): void {
  let row = 0;
  for (const chunk of batch.chunks) {
    packChunk(chunk, block, row);
    row += chunk.rowCount;
  }
}

/** What is read of a DuckDB vector of integers or enum codes. */
interface Items {
  items: Int32Array | Uint8Array;
}

function packChunk(chunk: DuckDBDataChunk, { words, keys, bytes }: RecordBlock, row: number): void {
  const rows = chunk.rowCount;
  let column = 0;
  for (let target = firstInteger; target < codesWord; target++, column++) {
    const { items } = chunk.getColumnVector(column) as unknown as Items;
    for (let i = 0, at = row * recordWords + target; i < rows; i++, at += recordWords) {
      words[at] = items[i] as number;
    }
  }
  for (let code = 0; code < codedColumns.length; code++, column++) {
    const { items } = chunk.getColumnVector(column) as unknown as Items;
    for (
      let i = 0, at = row * recordBytes + codesWord * 4 + code;
      i < rows;
      i++, at += recordBytes
    ) {
      bytes[at] = items[i] as number;
    }
  }
  for (let piece = 0; piece < commentPieces; piece++, column++) {
    const strings = inlineStrings(chunk, column);
    let from = 1;
    let at = row * recordWords + commentWord + piece * pieceWords;
    for (let i = 0; i < rows; i++, from += 4, at += recordWords) {
      words[at] = strings[from] as number;
      words[at + 1] = strings[from + 1] as number;
      words[at + 2] = strings[from + 2] as number;
    }
  }
  for (let i = row; i < row + rows; i++) {
    const at = i * recordWords;
    keys[i * recordDoubles] = sortKey(
      words[at + word.shipdate] as number,
      words[at + word.orderkey] as number,
      words[at + word.linenumber] as number,
    );
  }
}

/** DuckDB's strings as they lie in the vector: four words each, the length and up to 12 bytes. */
function inlineStrings(chunk: DuckDBDataChunk, column: number): Int32Array {
  const { data_chunk_get_vector, vector_get_data } = duckdbBindings();
  const data = vector_get_data(data_chunk_get_vector(chunk.chunk, column), chunk.rowCount * 16);
  return new Int32Array(data.buffer, data.byteOffset, chunk.rowCount * 4);
}

type Bindings = Pick<
  typeof import('@duckdb/node-bindings'),
  'data_chunk_get_vector' | 'vector_get_data'
>;
let bindings: Bindings | undefined;

/** DuckDB's C API, found from the package that depends on it, as we do not. */
function duckdbBindings(): Bindings {
  bindings ??= createRequire(require.resolve('@duckdb/node-api'))(
    '@duckdb/node-bindings',
  ) as Bindings;
  return bindings;
}

/** Bits of the sort key below the ship date (at most 2,527 days): order key and line number. */
const orderkeyFactor = 2 ** 3;
const shipdateFactor = 2 ** 26;

/** The order of the result: by ship date, order key and line number. Below 2³⁸, and unique. */
export function sortKey(shipdate: number, orderkey: number, linenumber: number): number {
  return shipdate * shipdateFactor + orderkey * orderkeyFactor + linenumber;
}

/** A line item as most JavaScript code would hold it. */
export interface LineItem {
  orderkey: number;
  partkey: number;
  suppkey: number;
  linenumber: number;
  quantity: number;
  price: number;
  discount: number;
  tax: number;
  shipdate: number;
  commitdate: number;
  receiptdate: number;
  returnflag: string;
  linestatus: string;
  shipinstruct: string;
  shipmode: string;
  comment: string;
}

/** What one `LineItem` takes in the V8 heap with its comment, bytes. Measured. */
export const lineItemHeapBytes = 208;

/** Record number `index` of `block` as an object. */
export function toLineItem({ words, bytes }: RecordBlock, index: number): LineItem {
  const at = index * recordWords + firstInteger;
  const codes = index * recordBytes + codesWord * 4;
  const comment = index * recordBytes + commentWord * 4;
  let length = commentBytes;
  while (length > 0 && bytes[comment + length - 1] === 0) length--;
  return {
    orderkey: words[at] as number,
    partkey: words[at + 1] as number,
    suppkey: words[at + 2] as number,
    linenumber: words[at + 3] as number,
    quantity: words[at + 4] as number,
    price: words[at + 5] as number,
    discount: words[at + 6] as number,
    tax: words[at + 7] as number,
    shipdate: words[at + 8] as number,
    commitdate: words[at + 9] as number,
    receiptdate: words[at + 10] as number,
    returnflag: dictionaries.l_returnflag[bytes[codes] as number] as string,
    linestatus: dictionaries.l_linestatus[bytes[codes + 1] as number] as string,
    shipinstruct: dictionaries.l_shipinstruct[bytes[codes + 2] as number] as string,
    shipmode: dictionaries.l_shipmode[bytes[codes + 3] as number] as string,
    comment: bytes.toString('latin1', comment, comment + length),
  };
}

/** Writes `item` as record number `index` of `block`: what `toLineItem` read, byte for byte. */
export function writeLineItem(item: LineItem, { words, keys, bytes }: RecordBlock, index: number) {
  const at = index * recordWords + firstInteger;
  keys[index * recordDoubles] = sortKey(item.shipdate, item.orderkey, item.linenumber);
  words[at] = item.orderkey;
  words[at + 1] = item.partkey;
  words[at + 2] = item.suppkey;
  words[at + 3] = item.linenumber;
  words[at + 4] = item.quantity;
  words[at + 5] = item.price;
  words[at + 6] = item.discount;
  words[at + 7] = item.tax;
  words[at + 8] = item.shipdate;
  words[at + 9] = item.commitdate;
  words[at + 10] = item.receiptdate;
  const codes = index * recordBytes + codesWord * 4;
  bytes[codes] = dictionaries.l_returnflag.indexOf(item.returnflag as never);
  bytes[codes + 1] = dictionaries.l_linestatus.indexOf(item.linestatus as never);
  bytes[codes + 2] = dictionaries.l_shipinstruct.indexOf(item.shipinstruct);
  bytes[codes + 3] = dictionaries.l_shipmode.indexOf(item.shipmode);
  const comment = index * recordBytes + commentWord * 4;
  const end = comment + bytes.write(item.comment, comment, commentBytes, 'latin1');
  bytes.fill(0, end, comment + commentBytes);
}
