import { ArgumentRangeError } from '../errors';
import type { SpillCodec } from './codec';
import { fixedLayout, prefixedLayout, type RecordLayout, type RecordPrefix } from './record-layout';

/**
 * For Buffers of records of one size, side by side.
 *
 * @param recordBytes size of a record, bytes, 1 or more
 */
export function fixedRecordCodec(recordBytes: number): SpillCodec<Buffer> {
  return recordCodec(`fixed records of ${recordBytes} bytes`, fixedLayout(recordBytes));
}

/**
 * For Buffers of records that each begin with their length. The length does not count itself.
 *
 * @param prefix how the length is written. Default `'uint32le'`
 */
export function prefixedRecordCodec(prefix: RecordPrefix = 'uint32le'): SpillCodec<Buffer> {
  return recordCodec(`records prefixed by ${prefix}`, prefixedLayout(prefix));
}

function recordCodec(name: string, layout: RecordLayout): SpillCodec<Buffer> {
  const checked = (bytes: Buffer): Buffer => {
    checkRecords(bytes, layout);
    return bytes;
  };
  return { name, encode: checked, decode: checked };
}

/**
 * Counts the records of a batch.
 *
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` when the last one is cut off
 */
export function checkRecords(bytes: Uint8Array, layout: RecordLayout): number {
  const end = bytes.byteLength;
  const { recordBytes } = layout;
  if (recordBytes !== undefined && end % recordBytes === 0) return end / recordBytes;
  let records = 0;
  for (let at = 0; at < end; records++) {
    const next = at + layout.headBytes <= end ? layout.endOf(bytes, at) : Number.POSITIVE_INFINITY;
    if (next > end) {
      throw new ArgumentRangeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'batch',
        `${end} bytes, record ${records} cut off at byte ${at}`,
        `whole records (${layout.description})`,
      );
    }
    at = next;
  }
  return records;
}
