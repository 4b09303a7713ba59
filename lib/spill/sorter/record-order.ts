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
  /** 48 bits that decide when they differ; the same for all where there is only a comparator. */
  leading(bytes: Uint8Array, start: number, end: number): number;
  /** Compares records whose leading bits are equal. */
  readonly compareTied: RecordComparator;
  /** Where keys lie, for sorting by parts of them; `undefined` where there is only a comparator. */
  readonly key: KeyRange | undefined;
}

/** The key of a record from `start` to `end` begins at `start + offset`. */
export interface KeyRange {
  readonly offset: number;
  /** How long keys are at most, bytes; shorter where the record ends before that. */
  readonly most: number;
  /** Whether all are that long. */
  readonly uniform: boolean;
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
    return { compare, leading: () => 0, compareTied: compare, key: undefined };
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
  const uniform = recordBytes !== undefined;
  return {
    offset: prefixBytes + offset,
    most: length ?? (uniform ? recordBytes - offset : Number.POSITIVE_INFINITY),
    uniform,
    descending,
  };
}

function keyOrder(key: KeyRange): RecordOrder {
  const { offset, most, uniform, descending } = key;
  const sign = descending ? -1 : 1;

  const compareFrom =
    (skip: number): RecordComparator =>
    (a, aStart, aEnd, b, bStart, bEnd) => {
      const aLength = keyLength(key, aStart, aEnd);
      const bLength = keyLength(key, bStart, bEnd);
      const shorter = Math.min(aLength, bLength);
      const i = aStart + offset;
      const j = bStart + offset;
      for (let at = skip; at < shorter; at++) {
        const difference = (a[i + at] as number) - (b[j + at] as number);
        if (difference !== 0) return sign * difference;
      }
      return sign * (aLength - bLength);
    };

  const leading = (bytes: Uint8Array, start: number, end: number): number => {
    const value = leadingOf(bytes, start + offset, keyLength(key, start, end));
    return descending ? leadingMax - value : value;
  };
  return {
    compare: compareFrom(0),
    leading,
    // What short keys are filled up with might be part of longer ones.
    compareTied: !uniform
      ? compareFrom(0)
      : most <= leadingBytes
        ? () => 0
        : compareFrom(leadingBytes),
    key,
  };
}

/** Bytes that the key of a record has. */
export function keyLength({ offset, most }: KeyRange, start: number, end: number): number {
  const there = end - start - offset;
  return there <= 0 ? 0 : there < most ? there : most;
}

/** The first bytes of a key as a number, zeros behind short ones. */
function leadingOf(bytes: Uint8Array, from: number, length: number): number {
  if (length >= leadingBytes) {
    const high =
      ((bytes[from] as number) << 16) |
      ((bytes[from + 1] as number) << 8) |
      (bytes[from + 2] as number);
    const low =
      ((bytes[from + 3] as number) << 16) |
      ((bytes[from + 4] as number) << 8) |
      (bytes[from + 5] as number);
    return high * 2 ** 24 + low;
  }
  let value = 0;
  for (let i = 0; i < leadingBytes; i++) {
    value = value * 256 + (i < length ? (bytes[from + i] as number) : 0);
  }
  return value;
}
