import { ArgumentTypeError, StateError } from '../errors';
import { parseSize } from '../sizes';
import {
  type AdmissionOptions,
  type AdmitRequest,
  checkDeadline,
  checkSignal,
  type DecidedAdmission,
  decideAdmission,
} from './admission-options';
import { type AdmissionRefusal, AdmissionRefusedError } from './admission-refused';

const LOOK_MS = 50;
const REMEMBERED = 16;
const UNKNOWN_HOLD_MS = 1000;
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 30_000;

/** What {@link Admission} uses of its guard. */
export interface AdmissionDependencies {
  /** What is in use, bytes. */
  usage(): number;
  /** What usage is held to, bytes; without one everything is admitted. */
  limit(): number | undefined;
  /** How many tasks run, admitted or not. */
  running(): number;
  /** Milliseconds, monotonic. */
  clock(): number;
  /** Calls `fn` every `ms` without keeping the process alive; returns what stops it. */
  every(ms: number, fn: () => void): () => void;
  options?: AdmissionOptions | undefined;
}

/** Leave to start. Its estimate counts until it is released. */
export class AdmissionTicket {
  /** Bytes. */
  readonly estimate: number;
  #release: (() => void) | undefined;

  /** Use `guard.admit`. */
  constructor(estimate: number, release: () => void) {
    this.estimate = estimate;
    this.#release = release;
  }

  /** Whether it was released. */
  get released(): boolean {
    return this.#release === undefined;
  }

  /** The work is done, or has reserved what it needs. Idempotent. */
  release(): void {
    const release = this.#release;
    this.#release = undefined;
    release?.();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

interface Waiter {
  readonly estimate: number;
  readonly deadlineAt: number;
  admit(): void;
  refuse(error: unknown): void;
}

/**
 * Decides whether work may start, by what it says it will need: usage, the estimates of what was
 * admitted and not released, and its own, together as a share of the limit. Usage holds part of those
 * estimates too, so it errs on the side of waiting. An idle process always admits one.
 */
export class Admission {
  readonly #dependencies: AdmissionDependencies;
  readonly #options: DecidedAdmission;
  readonly #waiters: Waiter[] = [];
  readonly #holds: number[] = [];
  #admitted = 0;
  #admittedBytes = 0;
  #stopLooking: (() => void) | undefined;
  #closed = false;

  /** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
  constructor(dependencies: AdmissionDependencies) {
    this.#dependencies = dependencies;
    this.#options = decideAdmission(dependencies.options);
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiters.length;
  }

  /** How many were admitted and not released. */
  get admitted(): number {
    return this.#admitted;
  }

  /**
   * Waits until the work may start.
   *
   * @returns (resolves to) a ticket to release when the work has ended
   * @throws ArgumentTypeError or ArgumentRangeError (rejects with it) `ERR_OOM_GUARD_INVALID_SIZE` for
   *   the estimate, `ERR_OOM_GUARD_INVALID_ARGUMENT` for the rest
   * @throws AdmissionRefusedError (rejects with it) `ERR_OOM_GUARD_NOT_ADMITTED`
   * @throws StateError (rejects with it) `ERR_OOM_GUARD_CLOSED`
   * @throws the signal's reason (rejects with it)
   */
  async admit(request: AdmitRequest): Promise<AdmissionTicket> {
    if (typeof request !== 'object' || request === null) {
      const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
      throw new ArgumentTypeError(code, 'request', request, 'an object with an estimate');
    }
    const estimate = parseSize(request.estimate, { name: 'estimate' });
    const deadlineMs = checkDeadline(request.deadlineMs ?? this.#options.deadlineMs);
    checkSignal(request.signal);
    request.signal?.throwIfAborted();
    if (this.#closed) {
      throw closedError();
    }
    // Those who came before have the first claim on room that nobody has noticed yet.
    this.#look();
    if (this.waiting === 0 && this.#mayStart(estimate)) {
      return this.#ticket(estimate);
    }
    const limit = this.#dependencies.limit() ?? Number.POSITIVE_INFINITY;
    if (this.#projected(estimate) > limit * this.#options.waitBelow) {
      throw this.#refusal(estimate, 'over');
    }
    if (this.waiting >= this.#options.maxQueue) {
      throw this.#refusal(estimate, 'queue-full');
    }
    if (deadlineMs === 0) {
      throw this.#refusal(estimate, 'deadline');
    }
    return this.#wait(estimate, deadlineMs, request.signal);
  }

  /** Refuses all who wait and all who come, with a `StateError`. Tickets stay valid. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const waiter of [...this.#waiters]) {
      waiter.refuse(closedError());
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #wait(
    estimate: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
  ): Promise<AdmissionTicket> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        signal?.removeEventListener('abort', aborted);
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        if (this.waiting === 0) {
          this.#stopLooking?.();
          this.#stopLooking = undefined;
        }
      };
      const waiter: Waiter = {
        estimate,
        deadlineAt: this.#dependencies.clock() + deadlineMs,
        admit: () => {
          leave();
          resolve(this.#ticket(estimate));
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      const aborted = () => {
        waiter.refuse(signal?.reason);
        this.#look();
      };
      signal?.addEventListener('abort', aborted, { once: true });
      this.#waiters.push(waiter);
      this.#stopLooking ??= this.#dependencies.every(LOOK_MS, () => this.#look());
    });
  }

  /** Lets go whose time is up, then admits from the front for as long as there is room. */
  #look(): void {
    if (this.waiting === 0) {
      return;
    }
    const now = this.#dependencies.clock();
    for (const waiter of this.#waiters.filter(({ deadlineAt }) => deadlineAt <= now)) {
      waiter.refuse(this.#refusal(waiter.estimate, 'deadline'));
    }
    for (let first = this.#waiters[0]; first !== undefined; first = this.#waiters[0]) {
      if (!this.#mayStart(first.estimate)) {
        return;
      }
      first.admit();
    }
  }

  #mayStart(estimate: number): boolean {
    const limit = this.#dependencies.limit();
    return (
      limit === undefined ||
      (this.#admitted === 0 && this.#dependencies.running() === 0) ||
      this.#projected(estimate) <= limit * this.#options.startBelow
    );
  }

  /** What would be in use with it, bytes. */
  #projected(estimate: number): number {
    return this.#dependencies.usage() + this.#admittedBytes + estimate;
  }

  #ticket(estimate: number): AdmissionTicket {
    const admittedAt = this.#dependencies.clock();
    this.#admitted += 1;
    this.#admittedBytes += estimate;
    return new AdmissionTicket(estimate, () => {
      this.#admitted -= 1;
      this.#admittedBytes -= estimate;
      this.#holds.push(this.#dependencies.clock() - admittedAt);
      if (this.#holds.length > REMEMBERED) {
        this.#holds.shift();
      }
      this.#look();
    });
  }

  #refusal(estimate: number, reason: AdmissionRefusal): AdmissionRefusedError {
    return new AdmissionRefusedError({
      estimate,
      usage: this.#dependencies.usage(),
      limit: this.#dependencies.limit() ?? Number.POSITIVE_INFINITY,
      reason,
      retryAfterMs: this.#retryAfterMs(),
    });
  }

  /** When everybody who waits now should have started, if admissions last as long as the last did. */
  #retryAfterMs(): number {
    const holds = this.#holds;
    const meanMs =
      holds.length === 0
        ? UNKNOWN_HOLD_MS
        : holds.reduce((sum, hold) => sum + hold, 0) / holds.length;
    const ms = Math.ceil((meanMs * (this.waiting + 1)) / Math.max(1, this.#admitted));
    return Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, ms));
  }
}

function closedError(): StateError {
  return new StateError(
    'ERR_OOM_GUARD_CLOSED',
    'The guard was closed: nothing is admitted any more',
  );
}
