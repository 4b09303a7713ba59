import { EventEmitter } from 'node:events';
import { hasSubscribers, publish, RateLimit } from './channels';
import type { GuardEvents, GuardWarning } from './events';

/** Tells of a guard's events: to listeners and on diagnostics channels, a few a second of each. */
export class GuardEmitter extends EventEmitter<GuardEvents> {
  readonly #clock: () => number;
  readonly #rates = new Map<string, RateLimit>();

  /** @param clock ms, monotonic */
  constructor(clock: () => number) {
    super();
    this.#clock = clock;
  }

  /** Whether anybody would hear of `event`. */
  protected heard(event: keyof GuardEvents): boolean {
    return this.listenerCount(event) > 0 || hasSubscribers(event);
  }

  /**
   * `argument` is only made when it is told: refusals may come by the million.
   *
   * A listener that throws must not leave a pool or a reclaim half done: it throws on its own.
   */
  protected tell<K extends keyof GuardEvents>(event: K, make: () => GuardEvents[K][0]): void {
    if (!this.heard(event)) {
      return;
    }
    const suppressed = this.#rate(event).take();
    if (suppressed === undefined) {
      return;
    }
    const argument = make();
    publish(event, { ...argument, guard: this, suppressed });
    try {
      (this as EventEmitter).emit(event, argument);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }

  /** Without a listener: a warning of the process. */
  protected warn(warning: GuardWarning): void {
    if (this.listenerCount('warning') > 0) {
      this.tell('warning', () => warning);
    } else if (warning.code !== 'ERR_OOM_GUARD_TRACK_ONLY') {
      // Outside a container tracking only is what everybody has; that is not worth a line each.
      process.emitWarning(warning.message, { type: 'OomGuardWarning', code: warning.code });
    }
  }

  #rate(event: string): RateLimit {
    let rate = this.#rates.get(event);
    if (rate === undefined) {
      rate = new RateLimit(this.#clock);
      this.#rates.set(event, rate);
    }
    return rate;
  }
}
