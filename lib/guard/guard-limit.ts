import type { ContainerReading } from '../counting/readings';
import { formatSize, parseSize, type Size } from '../sizes';
import type { GuardWarning } from './events';

/** The limit a guard holds to and how it came about. */
export interface GuardLimit {
  /** Bytes; `undefined` when there is none and memory is only tracked. */
  readonly bytes: number | undefined;
  /** The arithmetic, in words. */
  readonly explanation: string;
  readonly warning: GuardWarning | undefined;
}

/** `'auto'` where there is no container. */
export const NO_LIMIT: GuardLimit = {
  bytes: undefined,
  explanation: 'auto = none (no container limit)',
  warning: {
    code: 'ERR_OOM_GUARD_TRACK_ONLY',
    message: "limit: 'auto' found no container limit: memory is tracked, nothing is enforced",
  },
};

/**
 * Works out a limit that is not `'auto'`.
 *
 * @param totalMemory what the machine has, bytes
 * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_SIZE`
 */
export function resolveLimit(
  limit: Size,
  container: ContainerReading | undefined,
  totalMemory: number,
): GuardLimit {
  const containerLimit = container?.limit;
  const contained = containerLimit !== undefined && containerLimit <= totalMemory;
  const available = contained ? containerLimit : totalMemory;
  const owner = contained ? "the container's limit" : "the machine's memory";
  const bytes = parseSize(limit, { name: 'limit', percentOf: available });
  const given = typeof limit === 'string' ? `${limit} = ` : '';
  return {
    bytes,
    explanation: `${given}${formatSize(bytes)} (${owner}: ${formatSize(available)})`,
    warning:
      bytes > available
        ? {
            code: 'ERR_OOM_GUARD_LIMIT_TOO_HIGH',
            message: `The limit of ${formatSize(bytes)} is over ${owner} of ${formatSize(available)}: memory can run out before the guard acts`,
          }
        : undefined,
  };
}
