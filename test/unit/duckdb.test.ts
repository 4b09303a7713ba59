/** The governor and `runGuarded` against a database that does not exist. */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { memory } from '../../lib/counting';
import { ResourcesExhaustedError } from '../../lib/errors';
import type { MemoryGuard } from '../../lib/guard';
import { createGuard } from '../../lib/guard/create';
import {
  type DuckDBConnectionLike,
  type DuckDBGovernor,
  type DuckDBGovernorOptions,
  governDuckDB,
  runGuarded,
} from '../../lib/integrations/duckdb';
import { nextLimit } from '../../lib/integrations/duckdb/policy';
import { GreedyMemoryPool, MemoryConsumer, type MemoryReservation } from '../../lib/pool';
import { FakeProcess, guardDependencies, MIB, rejection } from './fakes';

const directory = mkdtempSync(path.join(os.tmpdir(), 'oom-guard-test-'));

/** What it holds is live; it evicts down to what is pinned. */
class FakeDatabase {
  readonly log: string[] = [];
  readonly settings: Record<string, string> = {
    memory_limit: '18.8 GiB',
    threads: '2',
    temp_directory: directory,
    max_temp_directory_size: '90% of available disk space',
  };
  used = 0;
  pinned = 0;
  closed = 0;
  failWith: string | undefined;

  constructor(readonly process: FakeProcess) {}

  use(bytes: number): void {
    this.process.liveBytes += bytes - this.used;
    this.used = bytes;
  }

  async connect(): Promise<DuckDBConnectionLike> {
    return {
      run: async (sql) => this.#run(sql),
      closeSync: () => {
        this.closed += 1;
      },
    };
  }

  async #run(sql: string) {
    if (this.failWith !== undefined) throw new Error(this.failWith);
    const setting = /current_setting\('(\w+)'\)/.exec(sql)?.[1];
    if (setting !== undefined) return rows([[this.settings[setting]]]);
    if (sql.includes('duckdb_memory')) return rows([['HASH_TABLE', this.used, 5]]);
    const [, name = '', value = ''] = /^SET (\w+) = '?([^']*)'?$/.exec(sql) ?? [];
    this.log.push(`${name}=${value}`);
    if (name === 'memory_limit' && value.endsWith('KiB')) {
      const bytes = Number.parseInt(value, 10) * 1024;
      if (bytes < this.pinned) {
        throw new Error(
          'Out of Memory Error: Failed to change memory limit to 1: could not free up enough memory for the new limit',
        );
      }
      if (this.used > bytes) this.use(bytes);
    }
    this.settings[name] = value;
    return rows([]);
  }
}

function rows(values: unknown[][]) {
  return { getRowsJS: async () => values };
}

const LIMIT = 500 * MIB;
let p: FakeProcess;
let database: FakeDatabase;
let guard: MemoryGuard;
let governor: DuckDBGovernor | undefined;
let tickers: (() => void)[];

beforeEach(() => {
  p = new FakeProcess();
  p.heapLimit = 4096 * MIB;
  p.rssAnon = 0;
  database = new FakeDatabase(p);
  tickers = [];
  guard = makeGuard();
});

afterEach(async () => {
  database.failWith = undefined;
  await governor?.close();
  governor = undefined;
  guard.close();
});

function makeGuard(mode?: 'observe', pool = new GreedyMemoryPool(LIMIT)): MemoryGuard {
  return createGuard(
    { limit: LIMIT, pool, readings: p, clock: p.clock, mode },
    guardDependencies(p),
  );
}

async function govern(options: DuckDBGovernorOptions = {}): Promise<DuckDBGovernor> {
  governor = await governDuckDB(database, guard, {
    floor: 100 * MIB,
    headroom: 20 * MIB,
    ceiling: 450 * MIB,
    clock: p.clock,
    every: (_ms, fn) => {
      tickers.push(fn);
      return () => tickers.splice(tickers.indexOf(fn), 1);
    },
    ...options,
  });
  return governor;
}

describe('where the limit goes', () => {
  const at = { current: 300 * MIB, used: 0, floor: 100 * MIB, ceiling: 450 * MIB };

  it.each([
    ['up at once', { room: 400 * MIB }, 400],
    ['not over the ceiling', { room: 4000 * MIB }, 450],
    ['not up by next to nothing', { room: 302 * MIB }, 300],
    ['down at once where nothing is in use', { room: 150 * MIB, used: 120 * MIB }, 150],
    ['not under the floor', { room: 10 * MIB }, 100],
    ['not down by next to nothing', { room: 299.5 * MIB }, 300],
    ['down by a tenth of what is in use', { room: 150 * MIB, used: 300 * MIB }, 270],
    ['down to the target at last', { room: 150 * MIB, used: 152 * MIB }, 150],
    ['down without going under what is used twice', { room: 150 * MIB, used: 200 * MIB }, 180],
    ['down even where usage is far over the limit', { room: -500 * MIB, used: 104 * MIB }, 100],
  ])('%s', (_name, inputs, expected) => {
    expect(nextLimit({ ...at, ...inputs }) / MIB).toBeCloseTo(expected);
  });
});

describe('the governor', () => {
  it('follows what the rest of the process leaves', async () => {
    const { stats, tick } = await bound();
    expect(stats().memoryLimit).toBe(450 * MIB);
    p.liveBytes = 300 * MIB;
    await tick();
    expect(stats().memoryLimit).toBe(180 * MIB);
    p.liveBytes = 0;
    p.heapUsed = 450 * MIB;
    await tick();
    expect(stats()).toMatchObject({ memoryLimit: 100 * MIB, floor: 100 * MIB, lowered: 3 });
    p.heapUsed = 0;
    await tick();
    expect(stats()).toMatchObject({ memoryLimit: 450 * MIB, raised: 1 });
  });

  it('counts what DuckDB holds once, and what it does not know of as the others', async () => {
    const { stats, tick } = await bound();
    database.use(200 * MIB);
    p.liveBytes += 50 * MIB;
    await tick();
    expect(stats()).toMatchObject({ used: 200 * MIB, memoryLimit: 430 * MIB });
    expect(guard.pool.reserved).toBe(200 * MIB);
    expect(guard.usage()).toBe(250 * MIB);
  });

  it('yields to a consumer that asks, down to its floor and no further', async () => {
    const { stats, tick } = await bound();
    database.use(400 * MIB);
    await tick();
    const rows = new MemoryConsumer('rows').register(guard.pool);
    await rows.grow(150 * MIB);
    expect(database.used).toBe(250 * MIB);
    expect(stats().memoryLimit).toBe(250 * MIB);
    p.liveBytes += 150 * MIB;
    rows.allocated(150 * MIB);
    await rows.grow(240 * MIB);
    p.liveBytes += 240 * MIB;
    rows.allocated(240 * MIB);
    const error = await rejection(rows.grow(20 * MIB));
    expect(error).toBeInstanceOf(ResourcesExhaustedError);
    expect(database.used).toBe(100 * MIB);
    rows.close();
  });

  it('keeps the old limit where DuckDB refuses, and holds it as what is needed', async () => {
    const { stats, tick } = await bound();
    database.use(300 * MIB);
    await tick();
    database.pinned = 290 * MIB;
    p.liveBytes += 200 * MIB;
    await tick();
    expect(stats()).toMatchObject({ refused: 1, memoryLimit: 450 * MIB, floor: 300 * MIB });
    p.now += 1500;
    database.pinned = 0;
    await tick();
    await tick();
    expect(stats()).toMatchObject({ refused: 1, memoryLimit: 280 * MIB, floor: 100 * MIB });
  });

  it('makes others spill for the floor of a query that is about to run', async () => {
    const { stats } = await bound();
    const cache: MemoryReservation = new MemoryConsumer('cache', {
      spill: (bytes) => {
        p.liveBytes -= bytes;
        cache.shrink(bytes);
      },
    }).register(guard.pool);
    await cache.grow(450 * MIB, { alreadyAllocated: 450 * MIB });
    p.liveBytes += 450 * MIB;
    await governor?.enter();
    expect(cache.size).toBe(350 * MIB);
    expect(guard.pool.reserved).toBe(450 * MIB);
    expect(stats()).toMatchObject({ running: 1, memoryLimit: 130 * MIB, threads: 2 });
    governor?.leave();
    cache.close();
  });

  it('runs on one thread where others cannot yield, and on all when they can again', async () => {
    const { stats } = await bound();
    const stiff = new MemoryConsumer('stiff').register(guard.pool);
    await stiff.grow(440 * MIB, { alreadyAllocated: 440 * MIB });
    p.liveBytes += 440 * MIB;
    await governor?.enter();
    expect(stats()).toMatchObject({ threads: 1, floor: 50 * MIB, memoryLimit: 50 * MIB });
    governor?.leave();
    stiff.close();
    p.liveBytes -= 440 * MIB;
    await governor?.enter();
    expect(stats()).toMatchObject({ threads: 2, memoryLimit: 450 * MIB });
    governor?.leave();
  });

  it('changes nothing where nothing is enforced, but keeps the books', async () => {
    guard.close();
    guard = makeGuard('observe');
    const { stats, tick } = await bound();
    database.use(200 * MIB);
    p.liveBytes += 400 * MIB;
    await tick();
    expect(database.log).toEqual([]);
    expect(stats()).toMatchObject({ lowered: 0, used: 200 * MIB });
    expect(guard.pool.reserved).toBe(200 * MIB);
  });

  it('gives freed memory back when there is much of it, once a second', async () => {
    const { stats, tick } = await bound();
    p.rssAnon = 200 * MIB;
    await tick();
    await tick();
    expect(stats().purges).toBe(1);
    p.now += 1000;
    await tick();
    expect(stats().purges).toBe(2);
  });

  it('tells memory() what DuckDB holds, until it is closed', async () => {
    const { tick } = await bound({ name: 'reports' });
    database.use(3 * MIB);
    await tick();
    const entries = [{ tag: 'HASH_TABLE', bytes: 3 * MIB, spilledBytes: 5 }];
    expect(memory().breakdowns).toEqual([{ name: 'reports', entries }]);
    expect(String(memory())).toMatch(/HASH_TABLE.*3 MiB.*reports/);
    await governor?.close();
    expect(memory().breakdowns).toEqual([]);
  });

  it('gives everything back when it is closed, and closes once', async () => {
    await bound();
    database.use(200 * MIB);
    await governor?.tick();
    await Promise.all([governor?.close(), governor?.close()]);
    expect(database.settings.memory_limit).toMatch(/^1972308\dKiB$/);
    expect([database.closed, guard.pool.reserved, tickers.length]).toEqual([1, 0, 0]);
    expect(guard.pool.consumers.largest()).toEqual([]);
    await governor?.tick();
  });

  it('reserves floors of an odd number of bytes', async () => {
    const { stats, tick } = await bound({ floor: 100 * MIB + 1 });
    const stiff = new MemoryConsumer('stiff').register(guard.pool);
    await stiff.grow(420 * MIB, { alreadyAllocated: 420 * MIB });
    p.liveBytes += 420 * MIB;
    await governor?.enter();
    expect(stats()).toMatchObject({ threads: 1, floor: 50 * MIB + 1 });
    expect(guard.pool.reserved).toBe(470 * MIB + 1);
    database.use(77 * MIB + 12345);
    for (let i = 0; i < 30; i++) await tick();
    expect(governor?.closed).toBe(false);
    expect(stats().lastError).toBe(undefined);
    governor?.leave();
    stiff.close();
  });

  it('has all threads again when no query runs any more', async () => {
    const { stats } = await bound();
    const stiff = new MemoryConsumer('stiff').register(guard.pool);
    await stiff.grow(440 * MIB, { alreadyAllocated: 440 * MIB });
    p.liveBytes += 440 * MIB;
    await governor?.enter();
    expect(stats().threads).toBe(1);
    governor?.leave();
    await settled(() => stats().threads === 2);
    stiff.close();
  });

  it('is not lowered again by a spill that was asked for while it was closed', async () => {
    await bound();
    database.use(300 * MIB);
    await governor?.tick();
    const rows = new MemoryConsumer('rows').register(guard.pool);
    const growing = rejection(rows.grow(250 * MIB));
    const closing = governor?.close();
    await Promise.all([growing, closing]);
    expect(database.settings.memory_limit).toMatch(/^1972308\dKiB$/);
    rows.close();
  });

  it('gives the threads back even where the limit cannot be restored', async () => {
    const { stats } = await bound();
    const stiff = new MemoryConsumer('stiff').register(guard.pool);
    await stiff.grow(440 * MIB, { alreadyAllocated: 440 * MIB });
    p.liveBytes += 440 * MIB;
    await governor?.enter();
    database.pinned = 1e15;
    await governor?.close();
    expect(database.settings.threads).toBe('2');
    expect(stats().lastError).toMatchObject({
      message: expect.stringContaining('Failed to change'),
    });
    stiff.close();
  });

  it('lets queries run once it is closed', async () => {
    const { stats } = await bound();
    await governor?.close();
    const c = connection();
    const result = runGuarded(c, 'SELECT 1', { governor: governor as DuckDBGovernor });
    await settled(() => c.runs === 1);
    c.finish();
    expect(await result).toBe('ok: SELECT 1');
    expect(stats().threads).toBe(2);
  });

  it('follows a limit of the guard that moves: floor, ceiling and headroom are shares of it', async () => {
    guard.close();
    let container = 1000 * MIB;
    p.rssAnon = 0;
    p.setContainer(container, 0);
    const timers: (() => void)[] = [];
    guard = createGuard(
      { limit: 'auto', readings: p, clock: p.clock },
      guardDependencies(p, {
        every: (_ms, fn) => {
          timers.push(fn);
          return () => undefined;
        },
      }),
    );
    const { stats, tick } = await bound({ floor: undefined, ceiling: undefined, headroom: '5%' });
    expect(stats()).toMatchObject({ floor: 250 * MIB, memoryLimit: 675 * MIB });
    container = 800 * MIB;
    p.setContainer(1000 * MIB, container);
    p.now += 1000;
    for (const fn of timers) fn();
    expect(guard.limit).toBe(100 * MIB);
    await tick();
    await tick();
    expect(stats()).toMatchObject({ floor: 60 * MIB, memoryLimit: 75 * MIB });
  });

  it('a ceiling under the usual floor holds; one under a floor that was given is refused', async () => {
    const { stats } = await bound({ floor: undefined, ceiling: 50 * MIB });
    expect(stats()).toMatchObject({ floor: 50 * MIB, memoryLimit: 50 * MIB });
    expect(await rejection(govern({ floor: 60 * MIB, ceiling: 50 * MIB }))).toMatchObject({
      code: 'ERR_OOM_GUARD_INVALID_ARGUMENT',
    });
  });

  it('may be closed while others are asked to yield', async () => {
    await bound();
    let finish: () => void = () => undefined;
    const cache: MemoryReservation = new MemoryConsumer('cache', {
      spill: () =>
        new Promise<void>((resolve) => {
          finish = () => {
            p.liveBytes = 0;
            cache.free();
            resolve();
          };
        }),
    }).register(guard.pool);
    await cache.grow(450 * MIB, { alreadyAllocated: 450 * MIB });
    p.liveBytes = 520 * MIB;
    database.use(10 * MIB);
    await governor?.tick();
    const entering = governor?.enter();
    await governor?.close();
    finish();
    await entering;
    expect(guard.pool.reserved).toBe(0);
    cache.close();
  });

  it('makes others spill when usage is over the limit and DuckDB cannot go lower', async () => {
    const { tick } = await bound();
    const cache: MemoryReservation = new MemoryConsumer('cache', {
      spill: (bytes) => {
        p.liveBytes -= bytes;
        cache.shrink(bytes);
      },
    }).register(guard.pool);
    await cache.grow(200 * MIB, { alreadyAllocated: 200 * MIB });
    p.liveBytes = 200 * MIB;
    database.use(310 * MIB);
    database.pinned = 310 * MIB;
    await tick();
    await tick();
    expect(guard.usage()).toBeLessThanOrEqual(LIMIT);
    expect(cache.size).toBeLessThan(200 * MIB);
    expect(database.used).toBe(310 * MIB);
    cache.close();
  });

  it('gives up on a database that only answers with errors', async () => {
    const { stats, tick } = await bound();
    database.failWith = 'Connection Error: gone';
    for (let i = 0; i < 20; i++) await tick();
    await governor?.close();
    expect(governor?.closed).toBe(true);
    expect(stats().lastError).toMatchObject({ message: 'Connection Error: gone' });
    expect(guard.pool.reserved).toBe(0);
  });

  async function bound(options?: DuckDBGovernorOptions) {
    const made = await govern(options);
    return { stats: () => made.stats(), tick: () => made.tick() };
  }
});

describe('a temp_directory that cannot be used is told at once', () => {
  it.each<[string, Record<string, string>, RegExp]>([
    ['none', { temp_directory: '' }, /is not set/],
    ['room for nothing', { max_temp_directory_size: '0 bytes' }, /may hold nothing/],
    ['a file in its way', { temp_directory: __filename }, /cannot be written to: E/],
    ['below a file', { temp_directory: path.join(__filename, 'x') }, /cannot be written to: E/],
  ])('%s', async (_name, settings, message) => {
    Object.assign(database.settings, settings);
    const error = await rejection(govern());
    expect(error).toMatchObject({ code: 'ERR_OOM_GUARD_TEMP_DIRECTORY' });
    expect(String(error)).toMatch(message);
    expect([database.closed, guard.pool.reserved]).toEqual([1, 0]);
  });

  it('leaves nothing behind of one that it made to see', async () => {
    const made = path.join(directory, 'a', 'b');
    database.settings.temp_directory = made;
    await govern();
    expect(() => rmSync(path.join(directory, 'a'))).toThrow(/ENOENT/);
  });
});

describe('bad input', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['no instance', () => governDuckDB({} as never, guard)],
    ['no guard', () => governDuckDB(database, {} as never)],
    ['options that are none', () => governDuckDB(database, guard, 3 as never)],
    ['an empty name', () => govern({ name: '' })],
    ['a floor that is no size', () => govern({ floor: 'much' })],
    ['a negative ceiling', () => govern({ ceiling: -1 })],
    ['a tick of nothing', () => govern({ tickMs: 0 })],
    ['a share that is no number', () => govern({ slackShare: '1' as never })],
    ['no connection', () => runGuarded({} as never, 'SELECT 1')],
    ['no statement', () => runGuarded(connection(), 5 as never)],
    ['no signal', () => runGuarded(connection(), 'SELECT 1', { signal: {} as never })],
    ['no task', () => runGuarded(connection(), 'SELECT 1', { task: {} as never })],
    ['retry without a governor', () => runGuarded(connection(), 'SELECT 1', { retry: true })],
  ])('%s', async (_name, call) => {
    const error = (await rejection(call())) as Error & { code: string };
    expect(error.code).toMatch(/^ERR_OOM_GUARD_INVALID_(ARGUMENT|SIZE)$/);
    expect(error.message).toMatch(/must be .*; got /);
    expect(database.closed).toBe(0);
  });
});

/** A connection whose statements take until `finish` is called, or until they are interrupted. */
function connection(outcomes: (string | Error)[] = ['ok']) {
  let settle: (() => void) | undefined;
  const state = {
    interrupts: 0,
    runs: 0,
    finish: () => settle?.(),
    run: (sql: string, ..._rest: unknown[]): Promise<string> => {
      state.runs += 1;
      const outcome = outcomes[state.runs - 1] ?? 'ok';
      return new Promise((resolve, reject) => {
        settle = () => (outcome instanceof Error ? reject(outcome) : resolve(`${outcome}: ${sql}`));
        state.interrupt = () => {
          state.interrupts += 1;
          // The first comes before the statement has begun, and is forgotten.
          if (state.interrupts > 1) reject(new Error('INTERRUPT Error: Interrupted!'));
        };
      });
    },
    interrupt: () => {},
  };
  return state;
}

const OUT_OF_MEMORY =
  'Out of Memory Error: could not allocate block of size 256.0 KiB (259.9 MiB/260.0 MiB used)';

describe('runGuarded', () => {
  it('passes result and other errors through', async () => {
    const c = connection(['ok', new Error('Parser Error: x')]);
    const result = runGuarded(c, 'SELECT 1', { values: [1] });
    await turn();
    c.finish();
    expect(await result).toBe('ok: SELECT 1');
    const failing = runGuarded(c, 'SELECT');
    await turn();
    c.finish();
    expect(await rejection(failing)).toMatchObject({ message: 'Parser Error: x' });
  });

  it('interrupts when its signal aborts, until the statement hears it', async () => {
    const c = connection();
    const controller = new AbortController();
    const result = rejection(runGuarded(c, 'SELECT 1', { signal: controller.signal }));
    await turn();
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await result).toBe(reason);
    expect(c.interrupts).toBe(2);
  });

  it('runs nothing for a signal that has aborted before', async () => {
    const c = connection();
    const signal = AbortSignal.abort(new Error('enough'));
    expect(await rejection(runGuarded(c, 'SELECT 1', { signal }))).toMatchObject({
      message: 'enough',
    });
    expect(c.runs).toBe(0);
  });

  it('is interrupted when its task is shed; the cause is what DuckDB said', async () => {
    guard.close();
    const c = connection();
    let now = 0;
    const error = await rejection(
      guardWithBreaker(() => now).run('query', async (task) => {
        task.reserve('rows').overcommit(LIMIT / 2);
        const result = runGuarded(c, 'SELECT 1', { task });
        await turn();
        p.liveBytes = LIMIT + 1;
        const timer = setInterval(() => {
          now += 60;
        }, 5);
        try {
          return await result;
        } finally {
          clearInterval(timer);
        }
      }),
    );
    expect(error).toMatchObject({
      code: 'ERR_OOM_GUARD_RESOURCES_EXHAUSTED',
      source: 'breaker',
      consumer: 'query',
      cause: { message: 'INTERRUPT Error: Interrupted!' },
    });
  });

  it("tells DuckDB's own refusal as ours, with its figures", async () => {
    const c = connection([new Error(OUT_OF_MEMORY)]);
    const result = rejection(runGuarded(c, 'SELECT 1'));
    await turn();
    c.finish();
    expect(await result).toMatchObject({
      code: 'ERR_OOM_GUARD_RESOURCES_EXHAUSTED',
      source: 'duckdb',
      requested: 256 * 1024,
      measured: Math.round(259.9 * MIB),
      limit: 260 * MIB,
      cause: { message: OUT_OF_MEMORY },
    });
  });

  it('runs once more with more room where that is allowed', async () => {
    const { enter, stats } = await entered();
    const c = connection([new Error(OUT_OF_MEMORY), 'ok']);
    const result = runGuarded(c, 'SELECT 1', { governor: enter, retry: true });
    await settled(() => c.runs === 1);
    c.finish();
    await settled(() => c.runs === 2);
    expect(stats()).toMatchObject({ failedQueries: 1, floor: 150 * MIB, memoryLimit: 150 * MIB });
    c.finish();
    expect(await result).toBe('ok: SELECT 1');
    expect(stats().running).toBe(0);
  });

  it('learns from a query that it does not run again, too', async () => {
    const { enter, stats } = await entered();
    const c = connection([new Error(OUT_OF_MEMORY)]);
    const result = rejection(runGuarded(c, 'SELECT 1', { governor: enter }));
    await settled(() => c.runs === 1);
    c.finish();
    await result;
    expect(stats()).toMatchObject({ failedQueries: 1, floor: 150 * MIB });
  });

  it('waits for room no longer than it says, and not for a task that was shed', async () => {
    const { enter } = await entered();
    const stiff = new MemoryConsumer('stiff').register(guard.pool);
    await stiff.grow(450 * MIB, { alreadyAllocated: 450 * MIB });
    const begun = p.now;
    await enter.enter({ deadlineMs: 5000 });
    expect(p.now - begun).toBeLessThanOrEqual(5100);
    enter.leave();
    stiff.close();
  });

  it('fails after the second time', async () => {
    const { enter, stats } = await entered();
    const c = connection([new Error(OUT_OF_MEMORY), new Error(OUT_OF_MEMORY)]);
    const result = rejection(runGuarded(c, 'SELECT 1', { governor: enter, retry: true }));
    await settled(() => c.runs === 1);
    c.finish();
    await settled(() => c.runs === 2);
    c.finish();
    expect(await result).toMatchObject({ source: 'duckdb', consumer: 'duckdb' });
    expect([c.runs, stats().running]).toEqual([2, 0]);
  });

  async function entered() {
    const made = await govern();
    p.liveBytes = 380 * MIB;
    await made.tick();
    return { enter: made, stats: () => made.stats() };
  }

  function guardWithBreaker(clock: () => number): MemoryGuard {
    return createGuard(
      { limit: LIMIT, readings: p, clock, breaker: { checks: 3, holdMs: 100 } },
      guardDependencies(p, { clock }),
    );
  }
});

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

async function settled(condition: () => boolean): Promise<void> {
  while (!condition()) await turn();
}
