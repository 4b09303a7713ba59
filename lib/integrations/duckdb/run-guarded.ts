import { liveBytes } from '../../counting';
import {
  ArgumentTypeError,
  findResourcesExhausted,
  ResourcesExhaustedError,
  withCause,
} from '../../errors';
import type { GuardTask } from '../../guard';
import { exhaustedBy, isOutOfMemory } from './errors';
import type { DuckDBGovernor } from './governor';

/** A `DuckDBConnection`, as far as a query needs it. */
export interface DuckDBRunner {
  // biome-ignore lint/suspicious/noExplicitAny: values and types are the driver's own.
  run(sql: string, values?: any, types?: any): Promise<unknown>;
  interrupt(): void;
}

/** Options of {@link runGuarded}. */
export interface RunGuardedOptions<C extends DuckDBRunner = DuckDBRunner> {
  /** Interrupts the query. */
  signal?: AbortSignal | undefined;
  /** Whose query it is: it is interrupted when the guard's breaker trips for that task. */
  task?: GuardTask | undefined;
  /** Reserves the query's floor before it runs, and learns from it when it fails. */
  governor?: DuckDBGovernor | undefined;
  /**
   * Runs the query once more, with more room, when DuckDB was out of memory. For a statement that
   * may run twice. Needs a governor. Default false.
   */
  retry?: boolean | undefined;
  /** For the statement's parameters, as for the connection's `run`. */
  values?: Parameters<C['run']>[1];
  /** Of those parameters. */
  types?: Parameters<C['run']>[2];
}

/** How often the breaker is looked at, and an interrupt repeated, ms. */
const CHECK_MS = 10;
/** How long a second attempt waits for room, ms. Then it is made all the same. */
const RETRY_WAIT_MS = 5000;

/**
 * Runs a statement, to be stopped when its signal aborts or the guard sheds its task: inside the
 * query, within some milliseconds. Resolves with what the connection's `run` gives. The connection
 * can be used again afterwards.
 *
 * @throws ResourcesExhaustedError (rejects with it) when the guard has shed the task, or DuckDB was out
 *   of memory; its cause is DuckDB's error
 * @throws the signal's reason (rejects with it) when that has aborted
 * @throws whatever else DuckDB rejects with, unchanged
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` (rejects with it)
 */
export async function runGuarded<C extends DuckDBRunner>(
  connection: C,
  sql: string,
  options: RunGuardedOptions<C> = {},
): Promise<Awaited<ReturnType<C['run']>>> {
  check(connection, sql, options);
  const { governor, signal, task, retry = false } = options;
  signal?.throwIfAborted();
  const disown = task?.attribute(heldBy(governor));
  try {
    return await runOnceOrTwice(connection, sql, options, retry ? governor : undefined);
  } finally {
    disown?.();
  }
}

/** @param retrying runs it a second time when there was no room */
async function runOnceOrTwice<C extends DuckDBRunner>(
  connection: C,
  sql: string,
  options: RunGuardedOptions<C>,
  retrying: DuckDBGovernor | undefined,
): Promise<Awaited<ReturnType<C['run']>>> {
  const { governor } = options;
  const signal = eitherOf(options.signal, options.task?.signal);
  await governor?.enter({ signal });
  try {
    return await attempt(connection, sql, options);
  } catch (error) {
    if (isOutOfMemory(error)) governor?.learn();
    if (retrying === undefined || !isOutOfMemory(error)) throw explain(error, options);
  } finally {
    governor?.leave();
  }
  // It asks for more room now, and waits for that for a while.
  await retrying.enter({ signal, deadlineMs: RETRY_WAIT_MS });
  try {
    return await attempt(connection, sql, options);
  } catch (error) {
    if (isOutOfMemory(error)) retrying.learn();
    throw explain(error, options);
  } finally {
    retrying.leave();
  }
}

function eitherOf(a: AbortSignal | undefined, b: AbortSignal | undefined) {
  return a === undefined || b === undefined ? (a ?? b) : AbortSignal.any([a, b]);
}

/** What a query holds: its part of the database's memory or, ungoverned, what has come since it began. */
function heldBy(governor: DuckDBGovernor | undefined): () => number {
  if (governor !== undefined) return () => governor.perQuery;
  const before = liveBytes();
  return () => Math.max(0, liveBytes() - before);
}

async function attempt<C extends DuckDBRunner>(
  connection: C,
  sql: string,
  { signal, task, values, types }: RunGuardedOptions<C>,
): Promise<Awaited<ReturnType<C['run']>>> {
  signal?.throwIfAborted();
  task?.checkpoint();
  let stopped: { readonly reason: unknown } | undefined;
  const interrupt = (reason: unknown) => {
    stopped ??= { reason };
    connection.interrupt();
  };
  const aborted = () => interrupt(signal?.reason);
  signal?.addEventListener('abort', aborted, { once: true });
  const timer = setInterval(() => {
    // A query that has not begun yet forgets an interrupt when it does.
    if (stopped !== undefined) connection.interrupt();
    else lookAt(task, interrupt);
  }, CHECK_MS);
  try {
    const result = (await connection.run(sql, values, types)) as Awaited<ReturnType<C['run']>>;
    if (stopped !== undefined) throw stopped.reason;
    return result;
  } catch (error) {
    throw stopped === undefined ? error : interrupted(stopped.reason, error);
  } finally {
    clearInterval(timer);
    signal?.removeEventListener('abort', aborted);
  }
}

function lookAt(task: GuardTask | undefined, interrupt: (reason: unknown) => void): void {
  try {
    task?.checkpoint();
  } catch (error) {
    interrupt(error);
  }
}

/** A shed task's error says what it was interrupted in; the reason of somebody's signal is his. */
function interrupted(reason: unknown, error: unknown): unknown {
  return reason instanceof ResourcesExhaustedError ? withCause(reason, error) : reason;
}

function explain(error: unknown, { governor, task }: RunGuardedOptions): unknown {
  if (!isOutOfMemory(error) || findResourcesExhausted(error) !== undefined) return error;
  return exhaustedBy(error, governor?.name ?? task?.name ?? 'duckdb', governor?.pool);
}

function check(connection: DuckDBRunner, sql: unknown, options: RunGuardedOptions): void {
  const code = 'ERR_OOM_GUARD_INVALID_ARGUMENT';
  if (typeof connection?.run !== 'function' || typeof connection.interrupt !== 'function') {
    throw new ArgumentTypeError(code, 'connection', connection, 'a DuckDBConnection');
  }
  if (typeof sql !== 'string') throw new ArgumentTypeError(code, 'sql', sql, 'a string');
  if (typeof options !== 'object' || options === null) {
    throw new ArgumentTypeError(code, 'options', options, 'an object');
  }
  const { signal, task, governor, retry } = options;
  if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') {
    throw new ArgumentTypeError(code, 'signal', signal, 'an AbortSignal');
  }
  if (task !== undefined && typeof task?.checkpoint !== 'function') {
    throw new ArgumentTypeError(code, 'task', task, 'the task of guard.run');
  }
  if (governor !== undefined && typeof governor?.enter !== 'function') {
    throw new ArgumentTypeError(code, 'governor', governor, 'what governDuckDB returns');
  }
  if (retry !== undefined && typeof retry !== 'boolean') {
    throw new ArgumentTypeError(code, 'retry', retry, 'a boolean');
  }
  if (retry === true && governor === undefined) {
    throw new ArgumentTypeError(code, 'governor', governor, 'given when retry is true');
  }
}
