import { ArgumentRangeError, ArgumentTypeError } from '../../errors';
import type { RecordLayout } from '../record-layout';

/** Part of a record that is compared byte by byte, as `memcmp` does. */
export interface RecordKey {
  /** Where it begins, bytes from the beginning of the record, behind the length prefix if any. */
  offset: number;
  /** How long it is, bytes. Default up to the end of the record. */
  length?: number | undefined;
  /** Largest first. Default false. */
  descending?: boolean | undefined;
}

/**
 * Compares record `aStart` to `aEnd` of `a` (length prefix included) with one of `b`: below 0 when it
 * comes first, above 0 when the other one does, 0 when the one that was pushed first does.
 */
export type RecordComparator = (
  a: Buffer,
  aStart: number,
  aEnd: number,
  b: Buffer,
  bStart: number,
  bEnd: number,
) => number;

/** Exactly one of the two. */
export type RecordOrderOptions =
  | { key: RecordKey; compare?: undefined }
  | { compare: RecordComparator; key?: undefined };

/** How records are ordered: by what a number holds of their keys where that is enough. */
export interface RecordOrder {
  readonly compare: RecordComparator;
  /**
   * 48 bits that decide when they differ; 0 for all where there is only a comparator. Records whose
   * bits are equal still have to be compared.
   */
  leading(bytes: Buffer, start: number, end: number): number;
  /** Where the key lies, for sorting by parts of it; `undefined` where there is only a comparator. */
  readonly key: KeyRange | undefined;
}

/** The key of a record that begins at `start` lies from `start + offset` to `endOf(…)`. */
export interface KeyRange {
  readonly offset: number;
  /** The same for all records, or `undefined`. */
  readonly length: number | undefined;
  readonly descending: boolean;
}

/** Bytes that {@link RecordOrder.leading} looks at. */
const leadingBytes = 6;
const leadingMax = 2 ** 48 - 1;

/** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function recordOrder(layout: RecordLayout, options: RecordOrderOptions): RecordOrder {
  const { key, compare } = options;
  if (key === undefined) {
    if (typeof compare !== 'function') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'compare',
        compare,
        'a function, or a key instead',
      );
    }
    return { compare, leading: () => 0, key: undefined };
  }
  if (compare !== undefined) {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'compare',
      compare,
      'left out when there is a key',
    );
  }
  return keyOrder(checkKey(layout, key));
}

function checkKey(layout: RecordLayout, key: RecordKey): KeyRange {
  const { offset, length, descending = false } = key;
  const { recordBytes, prefixBytes } = layout;
  const most = recordBytes ?? 2 ** 28;
  const check = (name: string, value: number, least: number, accepted: string) => {
    if (!Number.isSafeInteger(value) || value < least) {
      throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
    }
  };
  check('key.offset', offset, 0, 'a whole number of bytes, 0 or more');
  if (length !== undefined) check('key.length', length, 1, 'a whole number of bytes, 1 or more');
  if (offset + (length ?? 1) > most) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'key',
      key,
      `within the ${most} bytes of a record`,
    );
  }
  return {
    offset: prefixBytes + offset,
    length: recordBytes === undefined ? undefined : (length ?? recordBytes - offset),
    descending,
    ...(recordBytes === undefined && length !== undefined ? { most: length } : {}),
  };
}

function keyOrder(key: KeyRange & { most?: number }): RecordOrder {
  const { offset, length, descending, most = Number.POSITIVE_INFINITY } = key;
  const sign = descending ? -1 : 1;
  /** Where the key of a record ends: short records have short keys, or none. */
  const endOf = (start: number, end: number) => Math.min(start + offset + (length ?? most), end);
  // The leading bytes of keys of one length need not be looked at again.
  const skip = length === undefined ? 0 : Math.min(leadingBytes, length);

  const compare: RecordComparator = (a, aStart, aEnd, b, bStart, bEnd) => {
    const aStop = endOf(aStart, aEnd);
    const bStop = endOf(bStart, bEnd);
    let i = aStart + offset;
    let j = bStart + offset;
    for (; i < aStop && j < bStop; i++, j++) {
      const difference = (a[i] as number) - (b[j] as number);
      if (difference !== 0) return sign * difference;
    }
    return sign * (aStop - i - (bStop - j));
  };
  const afterLeading: RecordComparator = (a, aStart, aEnd, b, bStart, bEnd) =>
    length === skip ? 0 : compareFrom(a, aStart, aEnd, b, bStart, bEnd);
  const compareFrom: RecordComparator = (a, aStart, aEnd, b, bStart, bEnd) => {
    const aStop = endOf(aStart, aEnd);
    const bStop = endOf(bStart, bEnd);
    let j = bStart + offset + skip;
    for (let i = aStart + offset + skip; i < aStop && j < bStop; i++, j++) {
      const difference = (a[i] as number) - (b[j] as number);
      if (difference !== 0) return sign * difference;
    }
    return 0;
  };

  const leading = (bytes: Buffer, start: number, end: number): number => {
    const from = start + offset;
    const stop = endOf(start, end);
    let value = 0;
    if (stop - from >= leadingBytes) {
      value =
        (((bytes[from] as number) << 16) |
          ((bytes[from + 1] as number) << 8) |
          (bytes[from + 2] as number)) *
          2 ** 24 +
        (((bytes[from + 3] as number) << 16) |
          ((bytes[from + 4] as number) << 8) |
          (bytes[from + 5] as number));
    } else {
      for (let i = 0; i < leadingBytes; i++) {
        value = value * 256 + (from + i < stop ? (bytes[from + i] as number) : 0);
      }
    }
    return descending ? leadingMax - value : value;
  };
  return { compare: length === undefined ? compare : afterLeading, leading, key };
}
