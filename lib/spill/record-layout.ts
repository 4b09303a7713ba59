import { ArgumentRangeError } from '../errors';

/** How the length in front of a record is written. */
export type RecordPrefix = 'uint16le' | 'uint16be' | 'uint32le' | 'uint32be';

/** Where records begin and end in a stretch of bytes. */
export interface RecordLayout {
  /** In words, for messages. */
  readonly description: string;
  /** Bytes that are needed to tell where a record ends; the least that a record takes. */
  readonly headBytes: number;
  /** Bytes in front of what the record holds. */
  readonly prefixBytes: number;
  /** Size of every record, bytes; `undefined` when they differ. */
  readonly recordBytes: number | undefined;
  /** Where the record that begins at `start` ends. */
  endOf(bytes: Uint8Array, start: number): number;
}

/**
 * Records of `recordBytes` bytes.
 *
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` unless it is from 1 to 2²⁸
 */
export function fixedLayout(recordBytes: number): RecordLayout {
  if (!Number.isSafeInteger(recordBytes) || recordBytes < 1 || recordBytes > 2 ** 28) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'recordBytes',
      recordBytes,
      'a whole number of bytes from 1 to 2 ** 28',
    );
  }
  return {
    description: `${recordBytes} bytes each`,
    headBytes: recordBytes,
    prefixBytes: 0,
    recordBytes,
    endOf: (_, start) => start + recordBytes,
  };
}

const readers: Record<RecordPrefix, (bytes: Uint8Array, at: number) => number> = {
  uint16le: (bytes, at) => byte(bytes, at) | (byte(bytes, at + 1) << 8),
  uint16be: (bytes, at) => (byte(bytes, at) << 8) | byte(bytes, at + 1),
  uint32le: (bytes, at) =>
    (byte(bytes, at) |
      (byte(bytes, at + 1) << 8) |
      (byte(bytes, at + 2) << 16) |
      (byte(bytes, at + 3) << 24)) >>>
    0,
  uint32be: (bytes, at) =>
    ((byte(bytes, at) << 24) |
      (byte(bytes, at + 1) << 16) |
      (byte(bytes, at + 2) << 8) |
      byte(bytes, at + 3)) >>>
    0,
};

function byte(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}

/**
 * Records that begin with the length of what follows.
 *
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` for an unknown prefix
 */
export function prefixedLayout(prefix: RecordPrefix): RecordLayout {
  if (typeof prefix !== 'string' || !Object.hasOwn(readers, prefix)) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'prefix',
      prefix,
      Object.keys(readers).join(', '),
    );
  }
  const read = readers[prefix];
  const prefixBytes = prefix.startsWith('uint16') ? 2 : 4;
  return {
    description: `${prefix} length prefixes`,
    headBytes: prefixBytes,
    prefixBytes,
    recordBytes: undefined,
    endOf: (bytes, start) => start + prefixBytes + read(bytes, start),
  };
}
