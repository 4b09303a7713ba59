import { beforeEach, describe, expect, it } from 'vitest';
import { isResourcesExhausted, type ResourcesExhaustedError } from '../../lib/errors';
import { createGuard } from '../../lib/guard/create';
import type { GuardWarning } from '../../lib/guard/events';
import type { GuardDependencies, MemoryGuardOptions } from '../../lib/guard/guard-options';
import type { GuardTask } from '../../lib/guard/guard-task';
import type { MemoryGuard } from '../../lib/guard/memory-guard';
import { GreedyMemoryPool, type MemoryReservation } from '../../lib/pool';
import { FakeProcess, guardDependencies, MIB, rejection } from './fakes';

let p: FakeProcess;
let dependencies: GuardDependencies;
let timers: Set<() => void>;
let deferred: Set<() => void>;
let coverage: { available: boolean; reason?: string };
let starts: number;
let log: string[];

beforeEach(() => {
  p = new FakeProcess();
  timers = new Set();
  deferred = new Set();
  coverage = { available: true };
  starts = 0;
  log = [];
  dependencies = guardDependencies(p, {
    startCounting: () => {
      starts += 1;
      return coverage;
    },
    releaseFreeMemory: async () => void log.push('trim'),
    every: (_ms, fn) => {
      timers.add(fn);
      return () => void timers.delete(fn);
    },
    later: (fn) => {
      deferred.add(fn);
      return () => void deferred.delete(fn);
    },
    gc: () => void log.push('gc'),
  });
});

const make = (options: MemoryGuardOptions = { limit: 1000 }): MemoryGuard =>
  createGuard(options, dependencies);

function tick(ms = 1000): void {
  p.now += ms;
  for (const fn of timers) {
    fn();
  }
}

function runDeferred(): void {
  for (const fn of deferred) {
    fn();
  }
}

function warningsOf(guard: MemoryGuard): GuardWarning[] {
  const warnings: GuardWarning[] = [];
  guard.on('warning', (warning) => warnings.push(warning));
  runDeferred();
  return warnings;
}

describe('the limit', () => {
  it.each<[MemoryGuardOptions['limit'], number | undefined, number]>([
    [undefined, 1000 * MIB, 900 * MIB],
    ['auto', 1000 * MIB, 900 * MIB],
    ['50%', 1000 * MIB, 500 * MIB],
    ['50%', undefined, 8192 * MIB],
    ['50%', 2 ** 62, 8192 * MIB],
    ['600MiB', 1000 * MIB, 600 * MIB],
    [600 * MIB, undefined, 600 * MIB],
  ])('%s in a container of %s is %d', (limit, container, bytes) => {
    if (container !== undefined) {
      p.setContainer(container, 0);
    }
    const guard = make({ limit });
    expect([guard.limit, guard.mode]).toEqual([bytes, 'enforce']);
    expect(warningsOf(guard)).toEqual([]);
  });

  it('is none for auto without a container: it tracks, enforces nothing and says so', async () => {
    const guard = make({});
    expect([guard.limit, guard.mode]).toEqual([undefined, 'track']);
    expect(warningsOf(guard)).toMatchObject([{ code: 'ERR_OOM_GUARD_TRACK_ONLY' }]);
    expect(guard.describe()).toContain('tracks, enforces nothing; limit auto = none');
    p.liveBytes = 10 ** 15;
    await guard.run('t', async (task) => {
      const r = task.reserve('rows');
      expect(r.tryGrow(10 ** 12)).toBe(true);
      await r.grow(10 ** 12);
      for await (const _ of task.batches([1, 2, 3, 4])) {
        p.now += 1000;
      }
      expect(guard.stats().reserved).toBe(2 * 10 ** 12);
    });
    expect(guard.stats()).toMatchObject({ reserved: 0, trips: 0, shed: 0 });
  });

  it('over what there is gives a warning, later, and no error', () => {
    p.setContainer(500 * MIB, 0);
    const guard = make({ limit: '1GiB' });
    expect(guard.limit).toBe(1024 * MIB);
    expect(warningsOf(guard)).toMatchObject([
      {
        code: 'ERR_OOM_GUARD_LIMIT_TOO_HIGH',
        message: expect.stringContaining("1 GiB is over the container's limit of 500 MiB"),
      },
    ]);
    p.containerReading = undefined;
    expect(warningsOf(make({ limit: '17GiB' }))).toMatchObject([
      { message: expect.stringContaining("the machine's memory of 16 GiB") },
    ]);
  });

  it('over what there is warns the process when nobody listens', async () => {
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
    make({ limit: '17GiB' });
    runDeferred();
    expect(await warned).toMatchObject({
      name: 'OomGuardWarning',
      code: 'ERR_OOM_GUARD_LIMIT_TOO_HIGH',
    });
  });

  it('is explained', () => {
    p.setContainer(1000 * MIB, 0);
    expect(make({}).describe()).toBe(
      "memory guard: enforces; limit auto = 900 MiB (the container's limit of 1000 MiB - 0 B of other " +
        'processes - 0 B that is not counted - 100 MiB margin); tasks are shed over 950 MiB; ' +
        'pool fair(used: 0 B, pool_size: 900 MiB)',
    );
    expect(make({ limit: '50%' }).describe()).toContain('50% = 500 MiB');
  });

  it.each<[Record<string, unknown>]>([
    [{ limit: 0 }],
    [{ limit: -1 }],
    [{ limit: 'lots' }],
    [{ limit: '512M' }],
    [{ limit: null }],
    [{ limit: 1000, mode: 'strict' }],
    [{ limit: 1000, heapRatio: 2 }],
    [{ limit: 1000, containerMargin: 'x' }],
    [{ limit: 1000, breaker: { checks: 0 } }],
    [{ limit: 1000, pool: {} }],
    [{ heapRatio: 2 }],
    [{ breaker: { checks: 0 } }],
    [{ pool: {} }],
  ])('refuses %o and leaves no timer behind', (bad) => {
    expect(() => make(bad as MemoryGuardOptions)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_/) }),
    );
    expect(timers.size + deferred.size).toBe(0);
  });
});

describe('where memory cannot be counted', () => {
  beforeEach(() => {
    coverage = { available: false, reason: 'no prebuild for this system' };
  });

  it.each([['enforce' as const], [undefined]])(
    'mode %s refuses to start, with the reason',
    (mode) => {
      expect(() => make({ limit: 1000, mode })).toThrow(
        expect.objectContaining({
          code: 'ERR_OOM_GUARD_UNAVAILABLE',
          message: expect.stringContaining('no prebuild for this system'),
        }),
      );
      expect(timers.size + deferred.size).toBe(0);
    },
  );

  it('starts when told to accept it, and warns', () => {
    const guard = make({ limit: 1000, mode: 'enforce', allowDegraded: true });
    expect(guard.mode).toBe('enforce');
    expect(warningsOf(guard)).toMatchObject([{ code: 'ERR_OOM_GUARD_UNAVAILABLE' }]);
  });

  it('observes and tracks without being told', () => {
    expect(make({ limit: 1000, mode: 'observe' }).mode).toBe('observe');
    expect(make({}).mode).toBe('track');
  });

  it('does not matter to readings of the caller, for which nothing is started', () => {
    expect(make({ limit: 1000, readings: p }).mode).toBe('enforce');
    expect(starts).toBe(0);
  });
});

describe('a task', () => {
  it('gives back what it reserved, however it ends', async () => {
    const guard = make();
    const result = await guard.run('ok', (task) => {
      task.reserve('rows').tryGrow(100);
      task.reserve('rows').overcommit(50);
      expect(task.reserved).toBe(150);
      return 'done';
    });
    expect(result).toBe('done');
    expect(guard.stats().reserved).toBe(0);
    const failure = new Error('task');
    for (const end of [
      () => {
        throw failure;
      },
      () => Promise.reject(failure),
    ]) {
      const error = await rejection(
        guard.run('bad', (task) => {
          task.reserve('rows').tryGrow(100);
          return end();
        }),
      );
      expect(error).toBe(failure);
      expect(guard.stats()).toMatchObject({ reserved: 0, tasks: 0 });
    }
    expect(guard.pool.consumers.size).toBe(0);
  });

  it('is listed while it runs; names may repeat', async () => {
    const guard = make();
    p.now = 50;
    await guard.run('same', async (outer) => {
      outer.reserve('a').tryGrow(10);
      p.now = 80;
      await guard.run('same', () => {
        expect(guard.tasks()).toEqual([
          {
            id: outer.id,
            name: 'same',
            ageMs: 30,
            reserved: 10,
            attributed: 0,
            peak: 10,
            state: 'running',
            parent: undefined,
          },
          {
            id: expect.any(Number),
            name: 'same',
            ageMs: 0,
            reserved: 0,
            attributed: 0,
            peak: 0,
            state: 'running',
            parent: outer.id,
          },
        ]);
      });
    });
    expect(guard.tasks()).toEqual([]);
  });

  it('reserves and iterates no more once it has ended', async () => {
    const guard = make();
    let leaked: GuardTask | undefined;
    await guard.run('t', (task) => {
      leaked = task;
    });
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_TASK_ENDED' });
    expect(() => leaked?.reserve('rows')).toThrow(error);
    expect(() => leaked?.batches([])).toThrow(error);
  });

  it('makes its consumers spill, reclaims first, and is named in the error', async () => {
    const guard = make();
    const reclaims: string[] = [];
    guard.on('reclaim', ({ kind }) => reclaims.push(kind));
    const refusals: unknown[] = [];
    guard.on('refuse', (refusal) => refusals.push(refusal));
    await guard.run('report-17', async (task) => {
      const rows: MemoryReservation = task.reserve('rows', {
        spill: () => {
          rows.shrink(rows.size);
          p.liveBytes = 100;
        },
      });
      await rows.grow(500, { alreadyAllocated: 500 });
      p.liveBytes = 900;
      await rows.grow(200);
      expect(rows.size).toBe(200);
      expect(reclaims).toEqual(['garbage']);
      const error = (await rejection(rows.grow(2000))) as ResourcesExhaustedError;
      expect(error.consumer).toMatch(/^report-17\/rows#\d+$/);
      expect(rows.tryGrow(900)).toBe(false);
    });
    expect(guard.stats()).toMatchObject({
      spills: 1,
      spilledBytes: 500,
      refusals: { usage: 2, pool: 0, heap: 0, container: 0 },
      reclaims: { garbage: 1, slack: 0 },
      peakUsage: 900,
    });
    expect(refusals).toMatchObject([
      { source: 'usage', requested: 2000, enforced: true },
      { source: 'usage', requested: 900, enforced: true },
    ]);
  });

  it.each([
    ['', () => {}],
    [7, () => {}],
    ['t', 'fn'],
  ])('refuses run(%j, %s)', async (name, fn) => {
    const guard = make();
    expect(await rejection(guard.run(name as string, fn as () => void))).toMatchObject({
      code: 'ERR_OOM_GUARD_INVALID_ARGUMENT',
    });
    expect(await rejection(guard.run('t', (task) => task.reserve('')))).toMatchObject({
      code: 'ERR_OOM_GUARD_INVALID_ARGUMENT',
    });
  });
});

describe('the breaker', () => {
  async function overLimit(guard: MemoryGuard, name: string): Promise<number> {
    let seen = 0;
    await guard.run(name, async (task) => {
      task.reserve('rows').overcommit(40);
      for await (const _ of task.batches([1, 2, 3, 4, 5])) {
        seen += 1;
        p.now += 60;
      }
    });
    return seen;
  }

  it('fails the task between batches, closes its source and counts it', async () => {
    const guard = make();
    const trips: unknown[] = [];
    guard.on('trip', (trip) => trips.push(trip));
    p.liveBytes = 1001;
    const error = await rejection(overLimit(guard, 'greedy'));
    expect(isResourcesExhausted(error)).toBe(true);
    expect(error).toMatchObject({
      source: 'breaker',
      consumer: 'greedy',
      limit: 1000,
      measured: 1001,
      live: 1001,
      reserved: 40,
      consumers: [{ name: 'greedy/rows', reserved: 40 }],
    });
    expect(trips).toEqual([
      {
        task: 'greedy',
        id: expect.any(Number),
        reserved: 40,
        source: 'usage',
        usage: 1001,
        limit: 1000,
        enforced: true,
      },
    ]);
    expect(guard.stats()).toMatchObject({ trips: 1, shed: 1, reserved: 0, tasks: 0 });
    p.liveBytes = 1000;
    expect(await overLimit(guard, 'next')).toBe(5);
  });

  it('only counts in observe mode, once an episode', async () => {
    const guard = make({ limit: 1000, mode: 'observe' });
    const trips: unknown[] = [];
    guard.on('trip', (trip) => trips.push(trip));
    p.liveBytes = 1001;
    expect(await overLimit(guard, 'greedy')).toBe(5);
    expect(trips).toEqual([
      {
        task: 'greedy',
        id: expect.any(Number),
        reserved: 40,
        source: 'usage',
        usage: 1001,
        limit: 1000,
        enforced: false,
      },
    ]);
    expect(guard.stats()).toMatchObject({ trips: 1, shed: 0 });
  });

  it('sheds one task at a time: the next goes only after as long again', async () => {
    const guard = make();
    p.liveBytes = 1001;
    const outcomes = Promise.allSettled(
      ['a', 'b'].map((name) =>
        guard.run(name, async (task) => {
          let seen = 0;
          task.reserve('rows').overcommit(40);
          for await (const _ of task.batches([1, 2, 3, 4, 5, 6, 7, 8])) {
            seen += 1;
            p.now += 30;
          }
          return seen;
        }),
      ),
    );
    expect((await outcomes).map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(guard.stats()).toMatchObject({ trips: 1, shed: 1 });
  });

  it('takes its own numbers', async () => {
    const guard = make({ limit: 1000, breaker: { checks: 100 } });
    p.liveBytes = 1001;
    expect(await overLimit(guard, 'greedy')).toBe(5);
  });
});

describe('observe mode', () => {
  it('grants what it would have refused, counts it, and reclaims and spills nothing', async () => {
    const guard = make({ limit: 1000, mode: 'observe' });
    const refusals: unknown[] = [];
    guard.on('refuse', (refusal) => refusals.push(refusal));
    p.liveBytes = 900;
    await guard.run('t', async (task) => {
      const r = task.reserve('rows', { spill: () => void log.push('spill') });
      expect(r.tryGrow(200)).toBe(true);
      await r.grow(200);
      expect([r.size, guard.stats().reserved]).toEqual([400, 400]);
    });
    expect(guard.stats()).toMatchObject({ reserved: 0, refusals: { usage: 2 } });
    expect(refusals).toMatchObject([{ enforced: false }, { enforced: false }]);
    expect(log).toEqual([]);
    expect(guard.describe()).toContain('observes, enforces nothing');
  });
});

describe('without a pool of the caller', () => {
  it('those who can spill share the limit fairly', async () => {
    const guard = make({ limit: 1000, spillExemption: 0 });
    await guard.run('t', (task) => {
      const a = task.reserve('a', { spill: () => {} });
      const b = task.reserve('b', { canSpill: true });
      expect([a.tryGrow(501), a.tryGrow(500), b.tryGrow(300)]).toEqual([false, true, true]);
      expect(task.reserve('stiff').tryGrow(200)).toBe(true);
    });
    expect(guard.describe()).toContain('pool fair(used: 0 B, pool_size: 1000 B)');
  });

  it('what cannot spill can have a reserve', async () => {
    const guard = make({ limit: 1000, unspillableReserve: 400 });
    await guard.run('t', (task) => {
      const can = task.reserve('can', { canSpill: true });
      expect([can.tryGrow(601), can.tryGrow(600)]).toEqual([false, true]);
    });
  });

  it.each<[MemoryGuardOptions]>([
    [{ share: '' }],
    [{ share: 7 as never }],
    [{ unspillableReserve: 'much' }],
    [{ spillExemption: -1 }],
    [{ pendingMs: 0 }],
    [{ pool: {} as never }],
  ])('%o is refused', (options) => {
    expect(() => make({ limit: 1000, ...options })).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_/) }),
    );
  });

  it('guards of the same kind share a ledger, those with a name or a pool have another', () => {
    const keys: string[] = [];
    dependencies.ledger = ({ key, pendingMs }) => {
      keys.push(`${key} ${pendingMs}`);
      return undefined;
    };
    make({ limit: 1000 });
    make({ limit: 2000, pendingMs: 50 });
    make({ limit: 1000, share: 'reports' });
    make({ limit: 1000, pool: new GreedyMemoryPool(70) });
    expect(keys).toEqual(['default 1000', 'default 50', 'named/reports 1000', 'greedy/70 1000']);
    // Invented numbers are not the process's.
    make({ limit: 1000, readings: p });
    make({ limit: 1000, clock: p.clock });
    expect(keys).toHaveLength(4);
  });
});

describe('a reservation that is dropped', () => {
  it('is an event with the name of its consumer', async () => {
    const guard = make();
    const leaks: unknown[] = [];
    guard.on('leak', (leak) => leaks.push(leak));
    guard.pool.observer?.leaked?.({ consumer: 'rows#1', bytes: 5 });
    expect(leaks).toEqual([{ consumer: 'rows#1', bytes: 5 }]);
  });
});

describe('a pool of the caller', () => {
  it('is asked after real usage', () => {
    const pool = new GreedyMemoryPool(100);
    const guard = make({ limit: 1000, pool });
    return guard.run('t', (task) => {
      const r = task.reserve('rows');
      expect([r.tryGrow(101), r.tryGrow(100)]).toEqual([false, true]);
      expect(pool.reserved).toBe(100);
      expect(guard.stats().refusals.pool).toBe(1);
    });
  });
});

describe('sampling', () => {
  it('advises at most once a minute, and only while usage is under the limit', () => {
    const guard = make();
    const advisories: unknown[] = [];
    guard.on('advisory', (advisory) => advisories.push(advisory));
    p.rssTotal = 1000;
    tick();
    expect(advisories).toEqual([]);
    p.rssTotal = 1001;
    p.liveBytes = 1001;
    tick();
    expect(advisories).toEqual([]);
    p.liveBytes = 300;
    for (let second = 0; second < 60; second++) {
      tick();
    }
    expect(advisories).toMatchObject([{ rss: 1001, usage: 300, limit: 1000 }]);
    tick();
    expect(advisories).toHaveLength(2);
    expect(guard.stats()).toMatchObject({ peakRss: 1001, peakUsage: 1001 });
  });
});

describe('listeners that throw', () => {
  it('do not disturb the pool', async () => {
    const guard = make();
    const failure = new Error('listener');
    guard.on('refuse', () => {
      throw failure;
    });
    const handlers = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    const thrown = new Promise((resolve) => process.once('uncaughtException', resolve));
    try {
      await guard.run('t', (task) => {
        expect(task.reserve('rows').tryGrow(1001)).toBe(false);
      });
      expect(await thrown).toBe(failure);
    } finally {
      for (const handler of handlers) {
        process.on('uncaughtException', handler);
      }
    }
  });
});

describe('close', () => {
  it('stops the timers, starts no more tasks and may be repeated', async () => {
    const guard = make({ limit: '17GiB' });
    expect([timers.size, deferred.size]).toEqual([1, 1]);
    guard.close();
    guard.close();
    expect([timers.size, deferred.size, guard.closed]).toEqual([0, 0, true]);
    expect(await rejection(guard.run('t', () => {}))).toMatchObject({
      code: 'ERR_OOM_GUARD_CLOSED',
    });
  });

  it('lets running tasks end and give back', async () => {
    const guard = make();
    await guard.run('t', async (task) => {
      const r = task.reserve('rows');
      guard.close();
      await r.grow(100);
    });
    expect(guard.stats().reserved).toBe(0);
  });

  it('comes with using', async () => {
    let outer: MemoryGuard;
    {
      using guard = make();
      outer = guard;
    }
    expect(outer.closed).toBe(true);
    {
      await using guard = make();
      outer = guard;
    }
    expect([outer.closed, timers.size]).toEqual([true, 0]);
  });
});
