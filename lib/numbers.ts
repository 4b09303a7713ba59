import { ArgumentRangeError, ArgumentTypeError } from './errors';

/**
 * `value`, which has to be a number over 0 and at most `max`.
 *
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function checkPositive(
  name: string,
  value: unknown,
  max: number = Number.MAX_SAFE_INTEGER,
): number {
  const accepted = `a number over 0 and at most ${max}`;
  if (typeof value !== 'number') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
  if (!(value > 0 && value <= max)) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_ARGUMENT', name, value, accepted);
  }
  return value;
}
