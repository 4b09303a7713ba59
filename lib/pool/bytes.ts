import { ArgumentRangeError, ArgumentTypeError } from '../errors';

const ACCEPTED = 'a whole number of bytes from 0 to Number.MAX_SAFE_INTEGER';

/**
 * Throws unless `value` is a whole, safe, non-negative number of bytes.
 *
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_BYTES` when it is no number (a BigInt is none)
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_BYTES` when it is NaN, infinite, negative, a
 *   fraction or too large
 */
export function checkBytes(value: unknown, name: string): asserts value is number {
  if (typeof value !== 'number') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_BYTES', name, value, ACCEPTED);
  }
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_BYTES', name, value, ACCEPTED);
  }
}

/**
 * The sum of two numbers of bytes.
 *
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_BYTES` when it is too large to be exact
 */
export function addReserved(reserved: number, bytes: number): number {
  const total = reserved + bytes;
  if (!Number.isSafeInteger(total)) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_BYTES',
      'bytes',
      bytes,
      `at most ${Number.MAX_SAFE_INTEGER - reserved} bytes beside what is reserved`,
    );
  }
  return total;
}
