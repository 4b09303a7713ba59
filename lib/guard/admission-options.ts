import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import { checkPositive } from '../numbers';
import type { Size } from '../sizes';

const CODE = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
const DEFAULT_START_BELOW = 0.7;
const DEFAULT_WAIT_BELOW = 0.85;
const DEFAULT_MAX_QUEUE = 100;
const DEFAULT_DEADLINE_MS = 30_000;

/** When work is admitted. */
export interface AdmissionOptions {
  /** Share of the limit up to which work starts at once, over 0 to 1. Default 0.7. */
  startBelow?: number | undefined;
  /** Share of the limit up to which work waits, `startBelow` to 1. Over it, refused. Default 0.85. */
  waitBelow?: number | undefined;
  /** How many may wait, whole, 0 or more. Default 100. */
  maxQueue?: number | undefined;
  /** For how long work waits that brings no deadline of its own, ms, 0 or more. Default 30,000. */
  deadlineMs?: number | undefined;
}

/** One piece of work that asks to be admitted. */
export interface AdmitRequest {
  /** What it will need at its peak, bytes or text such as `'200MiB'`. */
  estimate: Size;
  /** Ends the waiting, with its reason. */
  signal?: AbortSignal | undefined;
  /** For how long it waits at most, ms, 0 or more. */
  deadlineMs?: number | undefined;
}

/** The options with their defaults. */
export type DecidedAdmission = { readonly [K in keyof AdmissionOptions]-?: number };

/** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function decideAdmission(options: AdmissionOptions = {}): DecidedAdmission {
  const startBelow = checkPositive('startBelow', options.startBelow ?? DEFAULT_START_BELOW, 1);
  const waitBelow = checkPositive(
    'waitBelow',
    options.waitBelow ?? Math.max(DEFAULT_WAIT_BELOW, startBelow),
    1,
  );
  if (waitBelow < startBelow) {
    throw new ArgumentRangeError(
      CODE,
      'waitBelow',
      waitBelow,
      `at least startBelow, ${startBelow}`,
    );
  }
  const maxQueue = options.maxQueue ?? DEFAULT_MAX_QUEUE;
  const accepted = 'a whole number of 0 or more';
  if (typeof maxQueue !== 'number') {
    throw new ArgumentTypeError(CODE, 'maxQueue', maxQueue, accepted);
  }
  if (!Number.isSafeInteger(maxQueue) || maxQueue < 0) {
    throw new ArgumentRangeError(CODE, 'maxQueue', maxQueue, accepted);
  }
  const deadlineMs = checkDeadline(options.deadlineMs ?? DEFAULT_DEADLINE_MS);
  return { startBelow, waitBelow, maxQueue, deadlineMs };
}

/** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkDeadline(value: unknown): number {
  const accepted = 'a number of milliseconds, 0 or more';
  if (typeof value !== 'number') {
    throw new ArgumentTypeError(CODE, 'deadlineMs', value, accepted);
  }
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw new ArgumentRangeError(CODE, 'deadlineMs', value, accepted);
  }
  return value;
}

/** @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkSignal(value: AbortSignal | undefined): void {
  // Not instanceof: there are signals of other realms.
  if (value !== undefined && typeof value?.throwIfAborted !== 'function') {
    throw new ArgumentTypeError(CODE, 'signal', value, 'an AbortSignal');
  }
}
