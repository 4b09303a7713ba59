import { inspect } from 'node:util';
import { formatSize } from './format';

/** Code of {@link ResourcesExhaustedError}. */
export const ERR_RESOURCES_EXHAUSTED = 'ERR_OOM_GUARD_RESOURCES_EXHAUSTED';

/** Codes of the errors that tell of a wrong argument. */
export type ArgumentErrorCode =
  /** A limit or a margin that is no size. */
  | 'ERR_OOM_GUARD_INVALID_SIZE'
  /** A number of bytes to grow or to shrink by that is none, or more than is held. */
  | 'ERR_OOM_GUARD_INVALID_BYTES'
  /** Any other option of the wrong kind. */
  | 'ERR_OOM_GUARD_INVALID_ARGUMENT'
  /** A reservation used after it was closed. */
  | 'ERR_OOM_GUARD_RELEASED';

/** Codes of the errors that tell of a call in the wrong state. */
export type StateErrorCode =
  /** The guard was closed. */
  | 'ERR_OOM_GUARD_CLOSED'
  /** The task has ended. */
  | 'ERR_OOM_GUARD_TASK_ENDED'
  /** Memory cannot be counted here, and the caller did not accept that. */
  | 'ERR_OOM_GUARD_UNAVAILABLE'
  /** DuckDB has no directory that it could spill to. */
  | 'ERR_OOM_GUARD_TEMP_DIRECTORY';

function argumentMessage(name: string, value: unknown, accepted: string): string {
  return `${name} must be ${accepted}; got ${inspect(value, { depth: 0, maxStringLength: 80 })}`;
}

/** A value of the right type that is out of range. `value` is what was given. */
export class ArgumentRangeError extends RangeError {
  readonly code: ArgumentErrorCode;
  readonly value: unknown;
  /** What would have been accepted, in words. */
  readonly accepted: string;

  constructor(code: ArgumentErrorCode, name: string, value: unknown, accepted: string) {
    super(argumentMessage(name, value, accepted));
    this.code = code;
    this.value = value;
    this.accepted = accepted;
  }
}

/** A value of the wrong type. `value` is what was given. */
export class ArgumentTypeError extends TypeError {
  readonly code: ArgumentErrorCode;
  readonly value: unknown;
  /** What would have been accepted, in words. */
  readonly accepted: string;

  constructor(code: ArgumentErrorCode, name: string, value: unknown, accepted: string) {
    super(argumentMessage(name, value, accepted));
    this.code = code;
    this.value = value;
    this.accepted = accepted;
  }
}

/** A call that is right in itself but comes at the wrong time. */
export class StateError extends Error {
  readonly code: StateErrorCode;

  constructor(code: StateErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Which check said no. */
export type RefusalSource = 'pool' | 'usage' | 'heap' | 'container';

/** Who ran out: a check of the pool, the breaker that sheds tasks, or DuckDB under its own limit. */
export type ExhaustedSource = RefusalSource | 'breaker' | 'duckdb';

/** One consumer as a refusal names it. Sizes in bytes. */
export interface ConsumerSummary {
  readonly id: number;
  readonly name: string;
  /** Reserved now, overcommit included. */
  readonly reserved: number;
  /** The part of `reserved` that was taken without asking. */
  readonly overcommitted: number;
  /** The most it ever had reserved. */
  readonly peak: number;
  readonly canSpill: boolean;
  readonly in: 'native' | 'heap';
}

/** What {@link ResourcesExhaustedError} is made of. All sizes in bytes. */
export interface ResourcesExhaustedDetails {
  /** How much was asked for; 0 when a breaker shed the task. */
  requested: number;
  /** Which check said no. */
  source: ExhaustedSource;
  /** Who asked: the consumer or, for a breaker, the task. */
  consumer: string;
  /** Reserved in the pool as a whole. */
  reserved: number;
  /** What a breaker has seen to be short: usage, the default, or V8's heap. */
  pressure?: 'usage' | 'heap' | undefined;
  /** The limit of the check that said no; `undefined` when the pool has none it could tell. */
  limit?: number | undefined;
  /** What that check compared with its limit, pending grants included, without the request. */
  measured: number;
  /** Room left under that limit, never negative; `undefined` without a limit. */
  available?: number | undefined;
  /** Live bytes of the process; `undefined` where the pool does not read them. */
  live?: number | undefined;
  /** The largest consumers, largest first. */
  consumers?: readonly ConsumerSummary[];
  /** Spill callbacks that threw or freed nothing, each in words. */
  spillFailures?: readonly string[];
  cause?: unknown;
}

const EXHAUSTED_NAME = 'ResourcesExhaustedError';
const EXHAUSTED_STACK = `${EXHAUSTED_NAME} [${ERR_RESOURCES_EXHAUSTED}]`;

const MEASURED_AS = {
  pool: 'already reserved',
  usage: 'in use',
  heap: 'used in the V8 heap',
  container: 'charged to the container',
  breaker: 'in use',
  duckdb: 'used by it',
} as const;

const LIMIT_NAMED = {
  pool: 'the pool',
  usage: 'memory usage',
  heap: 'the V8 heap',
  container: 'the container, less its margin',
  breaker: 'memory usage',
  duckdb: 'DuckDB',
} as const;

function describeConsumer(consumer: ConsumerSummary): string {
  const notes = [
    consumer.canSpill ? 'can spill' : 'cannot spill',
    ...(consumer.overcommitted > 0 ? [`${formatSize(consumer.overcommitted)} overcommitted`] : []),
  ];
  return `${consumer.name}#${consumer.id} ${formatSize(consumer.reserved)} (${notes.join(', ')})`;
}

function exhaustedMessage(details: ResourcesExhaustedDetails): string {
  const { source, limit, available, live, consumers = [], spillFailures = [] } = details;
  const check = source === 'breaker' && details.pressure === 'heap' ? 'heap' : source;
  const limitText =
    limit === undefined
      ? `no room in ${LIMIT_NAMED[check]}`
      : `the limit of ${LIMIT_NAMED[check]} is ${formatSize(limit)}`;
  const parts = [
    source === 'breaker'
      ? `Task ${details.consumer} was shed: ${limitText}`
      : `Cannot reserve ${formatSize(details.requested)} for ${details.consumer}: ${limitText}`,
    `, ${formatSize(details.measured)} ${MEASURED_AS[check]}`,
    available === undefined ? '' : `, ${formatSize(available)} available`,
    ` (${live === undefined ? '' : `live ${formatSize(live)}, `}reserved ${formatSize(details.reserved)}).`,
  ];
  parts.push(
    consumers.length > 0
      ? ` Largest consumers: ${consumers.map(describeConsumer).join('; ')}.`
      : ' No consumer holds a reservation.',
  );
  if (spillFailures.length > 0) {
    parts.push(` Spilling did not help: ${spillFailures.join('; ')}.`);
  }
  return parts.join('');
}

/**
 * There was no room, and none could be made. Says which check refused, its numbers and who holds
 * the most. `cause` is what a spill callback threw, if one did.
 *
 * Recognise it with {@link isResourcesExhausted}, which also sees through wrapping and through the
 * structured clone that takes class and fields from errors sent between Workers.
 */
export class ResourcesExhaustedError extends Error {
  static {
    ResourcesExhaustedError.prototype.name = EXHAUSTED_NAME;
  }

  readonly code = ERR_RESOURCES_EXHAUSTED;
  readonly requested: number;
  readonly source: ExhaustedSource;
  readonly consumer: string;
  readonly reserved: number;
  readonly limit: number | undefined;
  readonly measured: number;
  /** What a breaker has seen to be short; `undefined` for all other sources. */
  readonly pressure: 'usage' | 'heap' | undefined;
  readonly available: number | undefined;
  readonly live: number | undefined;
  readonly consumers: readonly ConsumerSummary[];
  readonly spillFailures: readonly string[];

  constructor(details: ResourcesExhaustedDetails) {
    super(
      exhaustedMessage(details),
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    // The code goes into the first line of the stack, as in Node's own errors: a structured clone
    // keeps the stack and the message, but neither `code` nor the name.
    if (this.stack?.startsWith(EXHAUSTED_NAME) === true) {
      this.stack = EXHAUSTED_STACK + this.stack.slice(EXHAUSTED_NAME.length);
    }
    this.requested = details.requested;
    this.source = details.source;
    this.consumer = details.consumer;
    this.reserved = details.reserved;
    this.limit = details.limit;
    this.measured = details.measured;
    this.pressure = details.source === 'breaker' ? (details.pressure ?? 'usage') : undefined;
    this.available = details.available;
    this.live = details.live;
    this.consumers = details.consumers ?? [];
    this.spillFailures = details.spillFailures ?? [];
  }
}

/** `error` with `cause`, unless it has one or is that itself. */
export function withCause<T>(error: T, cause: unknown): T {
  if (error instanceof Error && error.cause === undefined && error !== cause) {
    Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true });
  }
  return error;
}

function isExhaustedItself(error: object): boolean {
  if ('code' in error && error.code === ERR_RESOURCES_EXHAUSTED) {
    return true;
  }
  return (
    'stack' in error && typeof error.stack === 'string' && error.stack.startsWith(EXHAUSTED_STACK)
  );
}

/**
 * The first resources-exhausted error in `error` itself, its chain of causes and the errors of any
 * `AggregateError` or `SuppressedError` in it; `undefined` when there is none. What is found may
 * have lost its class and fields on the way between Workers.
 */
export function findResourcesExhausted(error: unknown): object | undefined {
  const seen = new Set<object>();
  const open: unknown[] = [error];
  while (open.length > 0) {
    const next = open.shift();
    if (typeof next !== 'object' || next === null || seen.has(next)) {
      continue;
    }
    seen.add(next);
    if (isExhaustedItself(next)) {
      return next;
    }
    const { cause, errors, suppressed, error: wrapped } = next as Record<string, unknown>;
    open.push(cause, suppressed, wrapped);
    if (Array.isArray(errors)) {
      open.push(...errors);
    }
  }
  return undefined;
}

/** Whether memory was exhausted, however deep that error lies in causes and aggregates. */
export function isResourcesExhausted(error: unknown): boolean {
  return findResourcesExhausted(error) !== undefined;
}
