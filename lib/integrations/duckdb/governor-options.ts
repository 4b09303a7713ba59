import os from 'node:os';
import { ArgumentRangeError, ArgumentTypeError } from '../../errors';
import type { MemoryGuard } from '../../guard';
import { checkPositive } from '../../numbers';
import { parseSize, type Size } from '../../sizes';
import type { DuckDBInstanceLike } from './types';

/** Options of `governDuckDB`. */
export interface DuckDBGovernorOptions {
  /** What it is called in errors and in `memory()`. Default `'duckdb'`. */
  name?: string | undefined;
  /**
   * What `memory_limit` never falls under while DuckDB runs on all its threads: bytes, text, or a
   * percentage of the guard's limit. Running queries may raise it. Default 125 MiB a thread, at most
   * 60 % of the guard's limit. (125 MB a thread is the least that DuckDB's own guide recommends.)
   */
  floor?: Size | undefined;
  /**
   * What `memory_limit` never rises over. Default 75 % of the guard's limit: what a
   * query has once taken it may not be able to give back, and beside it DuckDB holds memory that it
   * does not count.
   */
  ceiling?: Size | undefined;
  /** What is left free for others to take at once. Default 5 % of the guard's limit. */
  headroom?: Size | undefined;
  /** Where DuckDB spills, if not where it is set to. */
  tempDirectory?: string | undefined;
  /** How often it looks, ms. Default 50. */
  tickMs?: number | undefined;
  /**
   * Freed memory is given back to the kernel when what this process holds beyond usage is more than
   * this share of the guard's limit, over 0. Default 0.25.
   */
  slackShare?: number | undefined;
  /** Calls `fn` every `ms` without keeping the process alive; returns what stops it. */
  every?: ((ms: number, fn: () => void) => () => void) | undefined;
  /** Milliseconds, monotonic. Default `performance.now`. */
  clock?: (() => number) | undefined;
}

/** The options with everything decided. Sizes in bytes. */
export interface GovernorSettings {
  readonly name: string;
  /** For one thread; the floor of all is this times their number. */
  readonly floorPerThread: number;
  readonly threads: number;
  readonly ceiling: number;
  readonly headroom: number;
  readonly tickMs: number;
  readonly slackBytes: number;
  readonly clock: () => number;
  readonly every: (ms: number, fn: () => void) => () => void;
}

const MIB = 2 ** 20;
const FLOOR_PER_THREAD = 125 * MIB;
const FLOOR_SHARE = 0.6;
const CEILING_SHARE = 0.75;
const HEADROOM_SHARE = 0.05;
const SLACK_SHARE = 0.25;
const TICK_MS = 50;
const CODE = 'ERR_OOM_GUARD_INVALID_ARGUMENT';

/** @throws ArgumentTypeError or ArgumentRangeError for what is none of the accepted values */
export function checkOptions(
  instance: DuckDBInstanceLike,
  guard: MemoryGuard,
  options: DuckDBGovernorOptions,
): void {
  if (typeof instance?.connect !== 'function') {
    throw new ArgumentTypeError(CODE, 'instance', instance, 'a DuckDBInstance of @duckdb/node-api');
  }
  if (typeof guard?.pool?.requestGrow !== 'function') {
    throw new ArgumentTypeError(CODE, 'guard', guard, 'what createMemoryGuard returns');
  }
  if (typeof options !== 'object' || options === null) {
    throw new ArgumentTypeError(CODE, 'options', options, 'an object');
  }
  for (const key of ['name', 'tempDirectory'] as const) {
    const value = options[key];
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new ArgumentTypeError(CODE, key, value, 'a non-empty string');
    }
  }
  // Checked here too, so that nothing has been touched when one is wrong.
  decideOptions(options, guard.limit, 1);
}

/** @param limit of the guard; without one DuckDB's own limit stands and only the books are kept */
export function decideOptions(
  options: DuckDBGovernorOptions,
  limit: number | undefined,
  threads: number,
): GovernorSettings {
  const whole = limit ?? os.totalmem();
  const size = (name: 'floor' | 'ceiling' | 'headroom', fallback: number) => {
    const value = options[name];
    return value === undefined
      ? Math.floor(fallback)
      : parseSize(value, { name, percentOf: whole });
  };
  const ceiling = size('ceiling', whole * CEILING_SHARE);
  const floor = size('floor', Math.min(FLOOR_PER_THREAD * threads, whole * FLOOR_SHARE, ceiling));
  // One that moves with the guard's limit may fall under one that does not.
  if (floor > ceiling && options.floor !== undefined && options.ceiling !== undefined) {
    throw new ArgumentRangeError(CODE, 'ceiling', options.ceiling, 'at least the floor');
  }
  return {
    name: options.name ?? 'duckdb',
    floorPerThread: floor / threads,
    threads,
    ceiling: Math.max(floor, ceiling),
    headroom: size('headroom', whole * HEADROOM_SHARE),
    tickMs: checkPositive('tickMs', options.tickMs ?? TICK_MS),
    slackBytes: whole * checkPositive('slackShare', options.slackShare ?? SLACK_SHARE),
    clock: options.clock ?? (() => performance.now()),
    every: options.every ?? everyUnref,
  };
}

function everyUnref(ms: number, fn: () => void): () => void {
  const timer = setInterval(fn, ms).unref();
  return () => clearInterval(timer);
}
