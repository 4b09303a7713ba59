import { formatSize } from '../format';

/** Code of {@link AdmissionRefusedError}. */
export const ERR_NOT_ADMITTED = 'ERR_OOM_GUARD_NOT_ADMITTED';

/**
 * Why work was not admitted: it would have passed the share of the limit up to which one waits, too
 * many waited already, or it waited for as long as it was willing to.
 */
export type AdmissionRefusal = 'over' | 'queue-full' | 'deadline';

/** What {@link AdmissionRefusedError} is made of. */
export interface AdmissionRefusedDetails {
  /** Bytes that the work was said to need. */
  estimate: number;
  /** Usage when it was refused, bytes. */
  usage: number;
  /** Bytes. */
  limit: number;
  reason: AdmissionRefusal;
  /** Milliseconds, 100 to 30,000. */
  retryAfterMs: number;
}

const WORDS: Record<AdmissionRefusal, string> = {
  over: 'it would not fit',
  'queue-full': 'too many wait already',
  deadline: 'its deadline has passed',
};

/**
 * Work was not started because memory would have run short. Nothing has failed for want of memory:
 * `isResourcesExhausted` is false for it, and the same work may be tried again after `retryAfterMs`.
 */
export class AdmissionRefusedError extends Error {
  static {
    AdmissionRefusedError.prototype.name = 'AdmissionRefusedError';
  }

  readonly code = ERR_NOT_ADMITTED;
  /** Bytes that the work was said to need. */
  readonly estimate: number;
  /** Usage when it was refused, bytes. */
  readonly usage: number;
  /** Bytes. */
  readonly limit: number;
  readonly reason: AdmissionRefusal;
  /** A hint from how fast recent admissions were released, ms, 100 to 30,000. */
  readonly retryAfterMs: number;

  constructor({ estimate, usage, limit, reason, retryAfterMs }: AdmissionRefusedDetails) {
    super(
      `Work of ${formatSize(estimate)} was not admitted: ${WORDS[reason]}; ` +
        `${formatSize(usage)} of ${formatSize(limit)} in use. Retry in ${retryAfterMs} ms`,
    );
    this.estimate = estimate;
    this.usage = usage;
    this.limit = limit;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}
