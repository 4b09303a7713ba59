import bytes from 'bytes-iec';
import { ArgumentRangeError, ArgumentTypeError } from './errors';

export { formatSize } from './format';

/** A number of bytes, or text such as `'512MiB'`, `'512Mi'`, `'1.5GB'` or, where said, `'70%'`. */
export type Size = number | string;

// The parsing libraries guess at what they do not know; only these forms ever reach one.
const WITH_UNIT = /^(\d+(?:\.\d+)?) ?(?:([kmgtp])(i)?b|([kmgtp])i|b)$/i;
const PERCENT = /^(\d+(?:\.\d+)?) ?%$/;

/** How a size is named in messages and what percentages refer to. */
export interface ParseSizeOptions {
  /** What the value is, for the message: `'limit'`. */
  name: string;
  /** Bytes that 100 % stands for; without it percentages are not accepted. */
  percentOf?: number | undefined;
}

/**
 * Reads a size.
 *
 * @returns whole bytes, at least 1, at most `Number.MAX_SAFE_INTEGER`; fractions are rounded down
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_SIZE` when it is neither a number nor text
 * @throws ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE` when it is not a size, not positive, a
 *   fraction of a byte or too large
 */
export function parseSize(value: unknown, { name, percentOf }: ParseSizeOptions): number {
  const accepted =
    "a positive whole number of bytes, or text such as '512MiB', '512Mi' or '1.5GB'" +
    (percentOf === undefined ? '' : ", or a percentage such as '70%'");
  if (typeof value !== 'number' && typeof value !== 'string') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_SIZE', name, value, accepted);
  }
  const size = typeof value === 'number' ? value : parseText(value, percentOf);
  if (!Number.isSafeInteger(size) || size <= 0) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_SIZE', name, value, accepted);
  }
  return size;
}

function parseText(text: string, percentOf: number | undefined): number {
  const percent = PERCENT.exec(text);
  if (percent !== null) {
    return percentOf === undefined
      ? Number.NaN
      : Math.floor((percentOf * Number(percent[1])) / 100);
  }
  if (!WITH_UNIT.test(text)) {
    return Number.NaN;
  }
  // Kubernetes' spelling, which the library does not know.
  const spelled = /i$/i.test(text) ? `${text}B` : text;
  return bytes.parse(spelled) ?? Number.NaN;
}
