import { ArgumentRangeError, ArgumentTypeError } from '../errors';
import type { WaitOptions } from './grow-request';

/** Waits, ms; a signal that aborts ends the waiting early, in any way. */
export type Delay = (ms: number, options?: { signal?: AbortSignal }) => Promise<unknown>;

/** How long the caller of one `grow` waits: until its signal aborts or its deadline has passed. */
export class Patience {
  /** On the pool's clock, ms; infinite without a deadline. */
  readonly deadlineAt: number;
  readonly #signal: AbortSignal | undefined;
  readonly #deadlineMs: number | undefined;
  #granted = false;
  #endedBy: { error: unknown } | undefined;

  /**
   * What the options say; `undefined` when they say nothing.
   *
   * @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
   */
  static of(options: WaitOptions | undefined, clock: () => number): Patience | undefined {
    const signal = options?.signal;
    const deadlineMs = options?.deadlineMs;
    if (signal === undefined && deadlineMs === undefined) {
      return undefined;
    }
    const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
    // Not instanceof: there are signals of other realms.
    if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') {
      throw new ArgumentTypeError(code, 'signal', signal, 'an AbortSignal');
    }
    const accepted = 'a number of milliseconds, 0 or more';
    if (deadlineMs !== undefined && typeof deadlineMs !== 'number') {
      throw new ArgumentTypeError(code, 'deadlineMs', deadlineMs, accepted);
    }
    if (deadlineMs !== undefined && !(deadlineMs >= 0 && deadlineMs < Number.POSITIVE_INFINITY)) {
      throw new ArgumentRangeError(code, 'deadlineMs', deadlineMs, accepted);
    }
    return new Patience(signal, deadlineMs, clock());
  }

  private constructor(
    signal: AbortSignal | undefined,
    deadlineMs: number | undefined,
    now: number,
  ) {
    this.#signal = signal;
    this.#deadlineMs = deadlineMs;
    this.deadlineAt = deadlineMs === undefined ? Number.POSITIVE_INFINITY : now + deadlineMs;
  }

  /** Whether it has a deadline. */
  get hasDeadline(): boolean {
    return this.#deadlineMs !== undefined;
  }

  /** Whether the caller waits no longer. */
  get over(): boolean {
    return this.#endedBy !== undefined;
  }

  /** @throws what ended the waiting, if it has ended */
  check(): void {
    if (this.#endedBy !== undefined) {
      throw this.#endedBy.error;
    }
  }

  /** From now on nothing can end it: the bytes are booked. */
  granted(): void {
    this.#granted = true;
  }

  /** Settles as `served` does, unless the signal or the deadline (with `expired()`) comes first. */
  wait(served: Promise<void>, delay: Delay, expired: () => Error): Promise<void> {
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      const timer = new AbortController();
      const end = () => {
        signal?.removeEventListener('abort', aborted);
        timer.abort();
      };
      const giveUp = (error: unknown) => {
        this.#endedBy = { error };
        end();
        reject(error);
      };
      const aborted = () => {
        if (!this.#granted) {
          giveUp(signal?.reason);
        }
      };
      signal?.addEventListener('abort', aborted, { once: true });
      served.then(
        () => {
          end();
          resolve();
        },
        (error: unknown) => {
          end();
          reject(error);
        },
      );
      if (this.#deadlineMs !== undefined) {
        delay(this.#deadlineMs, { signal: timer.signal }).then(
          () => {
            if (!this.#granted && !timer.signal.aborted) {
              giveUp(expired());
            }
          },
          () => {},
        );
      }
    });
  }

  /** @throws the reason of a signal that has aborted before there was anything to wait for */
  start(): void {
    this.#signal?.throwIfAborted();
  }
}
