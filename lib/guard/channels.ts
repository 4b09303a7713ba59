import diagnosticsChannel from 'node:diagnostics_channel';
import type { GuardEmitter } from './guard-emitter';

/** Events that are published on `node:diagnostics_channel`, as `oom-guard:<name>`. */
export const PUBLISHED = ['refuse', 'trip', 'reclaim', 'recover'] as const;
export type PublishedEvent = (typeof PUBLISHED)[number];

/** What a subscriber gets: the event's own fields, and these. */
export interface PublishedMessage {
  readonly guard: GuardEmitter;
  /** How many of the same kind were left out since the last one. */
  readonly suppressed: number;
}

const MOST_A_SECOND = 5;
const SECOND_MS = 1000;

const channels = new Map(
  PUBLISHED.map((event) => [event as string, diagnosticsChannel.channel(`oom-guard:${event}`)]),
);

/** Tasks, as a tracing channel: `tracing:oom-guard:task:start`, `:asyncEnd`, `:error` and so on. */
const tasks = diagnosticsChannel.tracingChannel('oom-guard:task');
const taskChannels = [tasks.start, tasks.end, tasks.asyncStart, tasks.asyncEnd, tasks.error];

/** At most so many of an event in a second. */
export class RateLimit {
  readonly #clock: () => number;
  #secondAt = Number.NEGATIVE_INFINITY;
  #count = 0;
  #suppressed = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** How many were left out before this one; `undefined` when this one is left out too. */
  take(): number | undefined {
    const now = this.#clock();
    if (now - this.#secondAt >= SECOND_MS) {
      this.#secondAt = now;
      this.#count = 0;
    }
    if (this.#count >= MOST_A_SECOND) {
      this.#suppressed += 1;
      return undefined;
    }
    this.#count += 1;
    const left = this.#suppressed;
    this.#suppressed = 0;
    return left;
  }
}

/** Whether anybody has subscribed to the channel of `event`. */
export function hasSubscribers(event: string): boolean {
  return channels.get(event)?.hasSubscribers === true;
}

/** A subscriber that throws does so on its own: the channel sees to that. */
export function publish(event: string, message: PublishedMessage): void {
  channels.get(event)?.publish(message);
}

/** Runs a task, traced if anybody traces. */
export function traceTask<T>(
  fn: () => Promise<T>,
  context: { readonly guard: GuardEmitter; readonly id: number; readonly name: string },
): Promise<T> {
  return taskChannels.some((channel) => channel.hasSubscribers)
    ? (tasks.tracePromise(fn, context) as Promise<T>)
    : fn();
}
