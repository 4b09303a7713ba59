/** Who is shed, when, and what is tried first. Every failure that others reported has a test here. */
import diagnosticsChannel from 'node:diagnostics_channel';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { guardBatches } from '../../lib/breaker';
import { isResourcesExhausted, ResourcesExhaustedError } from '../../lib/errors';
import { createGuard } from '../../lib/guard/create';
import type { GuardEvents } from '../../lib/guard/events';
import type { MemoryGuardOptions } from '../../lib/guard/guard-options';
import type { GuardTask, TaskSummary } from '../../lib/guard/guard-task';
import type { MemoryGuard } from '../../lib/guard/memory-guard';
import { FakeProcess, guardDependencies, MIB, rejection } from './fakes';

let p: FakeProcess;
let timers: Map<() => void, number>;
let onGc: () => void;
let gcs: number;
let events: [string, Record<string, unknown>][];

beforeEach(() => {
  p = new FakeProcess();
  p.heapLimit = 4096;
  timers = new Map();
  gcs = 0;
  onGc = () => undefined;
  events = [];
});

function make(options: MemoryGuardOptions = {}): MemoryGuard {
  const dependencies = guardDependencies(p, {
    every: (ms, fn) => {
      timers.set(fn, ms);
      return () => void timers.delete(fn);
    },
    gc: () => {
      gcs += 1;
      onGc();
    },
  });
  const guard = createGuard({ limit: 1000, victimFloor: 0, ...options }, dependencies);
  for (const name of ['trip', 'noVictim', 'recover', 'warning', 'reclaim'] as const) {
    guard.on(name as keyof GuardEvents, (...args: unknown[]) =>
      events.push([name, args[0] as Record<string, unknown>]),
    );
  }
  return guard;
}

const of = (name: string) => events.filter(([event]) => event === name).map(([, event]) => event);

/** Lets time pass in steps, as the watch on running tasks does. */
async function pass(ms: number, step = 10): Promise<void> {
  for (let left = ms; left > 0; left -= step) {
    p.now += step;
    for (const [fn, every] of timers) if (every <= step) fn();
    for (let i = 0; i < 40; i++) await null;
  }
}

/** A task that holds `bytes` until it is shed or told to end. */
function hold(guard: MemoryGuard, name: string, bytes: number) {
  let end: () => void = () => undefined;
  let task: GuardTask | undefined;
  const ended = guard.run(name, async (own) => {
    task = own;
    if (bytes > 0) own.reserve('rows').overcommit(bytes);
    await new Promise<void>((resolve, reject) => {
      end = resolve;
      own.signal.addEventListener('abort', () => reject(own.signal.reason));
    });
    return name;
  });
  ended.catch(() => undefined);
  return { ended, end: () => end(), task: () => task as GuardTask };
}

describe('the victim', () => {
  it('is the task that has reserved most, wherever the breaker is looked at', async () => {
    const guard = make();
    const small = hold(guard, 'small', 100);
    const large = hold(guard, 'large', 700);
    const middle = hold(guard, 'middle', 300);
    p.liveBytes = 1100;
    await pass(150);
    expect(await rejection(large.ended)).toMatchObject({
      source: 'breaker',
      pressure: 'usage',
      consumer: 'large',
      limit: 1000,
      measured: 1100,
    });
    p.liveBytes = 400;
    small.end();
    middle.end();
    expect(await Promise.all([small.ended, middle.ended])).toEqual(['small', 'middle']);
    expect(of('trip')).toMatchObject([{ task: 'large', reserved: 700, enforced: true }]);
    expect(guard.stats()).toMatchObject({ trips: 1, shed: 1, noVictim: 0 });
  });

  it('is shed while it runs a call that yields no batch', async () => {
    const guard = make();
    const busy = hold(guard, 'busy', 500);
    p.liveBytes = 1001;
    await pass(90);
    expect(busy.task().shed).toBe(false);
    await pass(20);
    expect(busy.task().shed).toBe(true);
    expect(busy.task().signal.reason).toBe(busy.task().error);
  });

  it('may be whoever asks next', async () => {
    const guard = make({ victim: 'next' });
    const large = hold(guard, 'large', 700);
    p.liveBytes = 1001;
    await pass(150);
    expect(large.task().shed).toBe(false);
    const error = await rejection(
      guard.run('unlucky', async (task) => {
        for await (const _ of task.batches([1, 2])) expect(_).toBe(0);
      }),
    );
    expect(error).toMatchObject({ consumer: 'unlucky' });
    large.end();
    await large.ended;
  });

  it('may be chosen by a function, which sees what there is', async () => {
    const seen: unknown[] = [];
    const guard = make({
      victim: (tasks, pressure) => {
        seen.push([tasks.map(({ name, reserved }) => [name, reserved]), pressure]);
        return tasks.find(({ name }) => name === 'a');
      },
    });
    const a = hold(guard, 'a', 1);
    const b = hold(guard, 'b', 900);
    p.liveBytes = 1001;
    await pass(150);
    expect([a.task().shed, b.task().shed]).toEqual([true, false]);
    expect(seen).toEqual([
      [
        [
          ['a', 1],
          ['b', 900],
        ],
        { source: 'usage', usage: 1001, limit: 1000 },
      ],
    ]);
  });

  it('is the largest when that function throws, which is told', async () => {
    const guard = make({
      victim: () => {
        throw new Error('no idea');
      },
    });
    const a = hold(guard, 'a', 10);
    p.liveBytes = 1001;
    await pass(150);
    expect(a.task().shed).toBe(true);
    expect(of('warning')).toMatchObject([{ code: 'ERR_OOM_GUARD_CALLBACK' }]);
  });

  it.each([
    ['null', () => null as never],
    ['a task that is none', () => ({ id: -1 }) as never],
  ])('is nobody for a function that returns %s', async (_name, victim) => {
    const guard = make({ victim });
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1001;
    await pass(300);
    expect(rows.task().shed).toBe(false);
    expect(of('noVictim')).toHaveLength(1);
  });

  it('is chosen even if what a task holds cannot be told', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    rows.task().attribute(() => {
      throw new Error('gone');
    });
    rows.task().attribute(() => Number.NaN);
    p.liveBytes = 1001;
    await pass(150);
    expect(rows.task().shed).toBe(true);
  });

  it('is not a task that has ended, though its iteration goes on', async () => {
    const guard = make({ victim: 'next' });
    let left: AsyncIterator<number> | undefined;
    await guard.run('old', async (task) => {
      left = task.batches([1, 2, 3]);
      await left.next();
    });
    hold(guard, 'rows', 500);
    p.liveBytes = 1001;
    await pass(150);
    expect(await left?.next()).toEqual({ done: false, value: 2 });
    expect(of('trip')).toEqual([]);
  });

  it('waits for nothing any more once it was shed', async () => {
    const guard = make();
    let finish: () => void = () => undefined;
    const other = hold(guard, 'other', 0);
    const slow = other.task().reserve('slow', {
      spill: () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
    });
    slow.overcommit(50);
    p.liveBytes = 1001;
    const ended = guard.run('rows', async (task) => {
      const rows = task.reserve('rows');
      rows.overcommit(900);
      await rows.grow(50, { signal: new AbortController().signal });
    });
    const error = rejection(ended);
    await pass(150);
    expect(await error).toMatchObject({ source: 'breaker', consumer: 'rows' });
    expect(guard.pool.reserved).toBe(50);
    finish();
  });

  it('is no task under the floor: small tasks are not shed first', async () => {
    const guard = make({ victimFloor: '20%' });
    const small = hold(guard, 'small', 199);
    p.liveBytes = 1001;
    await pass(2000);
    expect(small.task().shed).toBe(false);
    expect(of('noVictim')).toEqual([{ source: 'usage', usage: 1001, limit: 1000 }]);
    const fit = hold(guard, 'fit', 200);
    await pass(300);
    expect([small.task().shed, fit.task().shed]).toEqual([false, true]);
  });

  it('is held to account for what it was said to hold', async () => {
    const guard = make();
    const query = hold(guard, 'query', 0);
    hold(guard, 'rows', 100);
    const disown = query.task().attribute(() => 500);
    expect(guard.tasks()[0]).toMatchObject({ name: 'query', reserved: 0, attributed: 500 });
    p.liveBytes = 1001;
    await pass(150);
    expect(query.task().shed).toBe(true);
    disown();
  });

  it('takes the tasks inside it along, and only those', async () => {
    const guard = make();
    let inner: ReturnType<typeof hold> | undefined;
    let outer: GuardTask | undefined;
    const ended = guard.run('outer', async (task) => {
      outer = task;
      task.reserve('rows').overcommit(900);
      inner = hold(guard, 'inner', 10);
      await inner.ended;
    });
    const other = hold(guard, 'other', 20);
    expect(inner?.task().parent).toBe(outer);
    expect(other.task().parent).toBe(undefined);
    p.liveBytes = 1001;
    await pass(150);
    expect(await rejection(ended)).toMatchObject({ consumer: 'outer' });
    expect([inner?.task().shed, other.task().shed]).toEqual([true, false]);
  });
});

describe('nobody is shed', () => {
  it('with zero work in flight; that is told once an episode', async () => {
    const guard = make();
    p.liveBytes = 1001;
    await pass(10_000, 1000);
    expect(of('noVictim')).toHaveLength(1);
    p.liveBytes = 100;
    await pass(1000, 1000);
    expect(of('recover')).toMatchObject([{ source: 'usage', usage: 100 }]);
    p.liveBytes = 1001;
    await pass(10_000, 1000);
    expect(of('noVictim')).toHaveLength(2);
    expect(guard.stats()).toMatchObject({ noVictim: 2, shed: 0, trips: 0 });
  });

  it('when garbage was all it was', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1500;
    onGc = () => {
      p.liveBytes = 700;
    };
    await pass(1000);
    expect([rows.task().shed, gcs]).toEqual([false, 1]);
    expect(of('reclaim')).toMatchObject([{ kind: 'garbage', liveBefore: 1500, liveAfter: 700 }]);
    // Nobody has heard of anything that there could be a recovery from.
    expect(of('recover')).toEqual([]);
  });

  it('when somebody could spill', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    const spilled: number[] = [];
    const cache = hold(guard, 'cache', 0)
      .task()
      .reserve('cache', {
        spill: (bytes) => {
          const freed = Math.min(bytes, cache.size);
          spilled.push(freed);
          p.liveBytes -= freed;
          cache.shrink(freed);
        },
      });
    cache.overcommit(300, { alreadyAllocated: 300 });
    p.liveBytes = 1100;
    await pass(1000);
    expect(rows.task().shed).toBe(false);
    expect(spilled[0]).toBeGreaterThanOrEqual(101);
    expect(guard.stats()).toMatchObject({ shed: 0, trips: 0, refusals: { usage: 0 } });
  });

  it('when a cache could be emptied', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1500;
    let calls = 0;
    const stop = guard.onReclaim(async () => {
      calls += 1;
      p.liveBytes = 700;
    });
    await pass(1000);
    expect([rows.task().shed, calls]).toEqual([false, 1]);
    expect(of('reclaim')).toMatchObject([
      { kind: 'cache', liveBefore: 1500, liveAfter: 700 },
      { kind: 'garbage' },
    ]);
    stop();
    stop();
    p.liveBytes = 1500;
    await pass(1000);
    expect(calls).toBe(1);
  });

  it('for ever, where a cache is not emptied in time: it is told, and somebody goes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const guard = make();
      const rows = hold(guard, 'rows', 500);
      guard.onReclaim(() => new Promise(() => undefined));
      p.liveBytes = 1500;
      await pass(150);
      expect(rows.task().shed).toBe(false);
      await vi.advanceTimersByTimeAsync(1000);
      await pass(10);
      expect(rows.task().shed).toBe(true);
      expect(of('warning')[0]).toMatchObject({
        message: expect.stringContaining('more than 1000 ms'),
      });
    } finally {
      vi.useRealTimers();
    }
  });

  it('for ever, where a cache asks the pool for room itself', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    const reservation = rows.task().reserve('buffer');
    guard.onReclaim(async () => {
      await reservation.grow(100).catch(() => undefined);
    });
    p.liveBytes = 1000;
    const growing = rejection(rows.task().reserve('more').grow(10));
    await pass(50);
    expect(isResourcesExhausted(await growing)).toBe(true);
  });

  it('and garbage is not looked for again and again when there was none', async () => {
    const guard = make({ victimFloor: '90%' });
    hold(guard, 'small', 10);
    p.liveBytes = 1001;
    await pass(4000);
    expect(gcs).toBe(1);
    p.liveBytes += 9 * MIB;
    await pass(400);
    expect(gcs).toBe(2);
    await pass(6000);
    expect(gcs).toBe(3);
  });

  it('but for a cache that throws, which is told', async () => {
    const guard = make();
    hold(guard, 'rows', 500);
    guard.onReclaim(() => {
      throw new Error('locked');
    });
    p.liveBytes = 1500;
    await pass(300);
    expect(of('warning')).toMatchObject([
      { code: 'ERR_OOM_GUARD_CALLBACK', message: expect.stringContaining('locked') },
    ]);
    expect(guard.stats().shed).toBe(1);
  });

  it('for a streak of an hour ago', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1001;
    await pass(90);
    p.now += 3_600_000;
    await pass(90);
    expect(rows.task().shed).toBe(false);
  });

  it('in the time that the last one has to let go', async () => {
    const guard = make({ settleMs: 500 });
    const first = hold(guard, 'first', 500);
    const second = hold(guard, 'second', 400);
    p.liveBytes = 1001;
    await pass(150);
    expect(first.task().shed).toBe(true);
    await pass(450);
    expect(second.task().shed).toBe(false);
    await pass(300);
    expect(second.task().shed).toBe(true);
  });

  it('at once, unless the kernel is about to kill', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    p.setContainer(1000 * MIB, 940 * MIB);
    p.liveBytes = 1001;
    await pass(50);
    expect(rows.task().shed).toBe(false);
    p.setContainer(1000 * MIB, 951 * MIB);
    await pass(10);
    expect([rows.task().shed, gcs]).toEqual([true, 1]);
  });

  it('between the limit and the limit of the breaker, where a spill has its room', async () => {
    const guard = make({ breakerLimit: 1200 });
    expect([guard.limit, guard.breakerLimit]).toEqual([1000, 1200]);
    expect(guard.describe()).toContain('tasks are shed over 1.2 KiB');
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1200;
    await pass(1000);
    expect(rows.task().shed).toBe(false);
    p.liveBytes = 1201;
    await pass(150);
    expect(rows.task().shed).toBe(true);
    expect(make({ breakerLimit: 10 }).breakerLimit).toBe(1000);
  });

  it('in observe mode, which tells whom it would have been, once an episode', async () => {
    const guard = make({ mode: 'observe' });
    const rows = hold(guard, 'rows', 500);
    p.liveBytes = 1001;
    await pass(2000);
    expect(rows.task().shed).toBe(false);
    expect(of('trip')).toMatchObject([{ task: 'rows', enforced: false }]);
    expect(gcs).toBe(0);
    p.liveBytes = 950;
    await pass(100);
    p.liveBytes = 1001;
    await pass(2000);
    expect(of('trip')).toHaveLength(1);
    p.liveBytes = 800;
    await pass(100);
    p.liveBytes = 1001;
    await pass(2000);
    expect(of('trip')).toHaveLength(2);
  });
});

describe('observe mode and the next', () => {
  it('tells whom it would have been when somebody comes by', async () => {
    const guard = make({ mode: 'observe', victim: 'next' });
    hold(guard, 'large', 900);
    p.liveBytes = 1001;
    await pass(200);
    expect(events).toEqual([]);
    await guard.run('next', async (task) => {
      for await (const _ of task.batches([1, 2])) p.now += 1;
    });
    expect(of('trip')).toMatchObject([{ task: 'next', enforced: false }]);
    expect(of('noVictim')).toEqual([]);
  });
});

describe("V8's own ceiling", () => {
  it('sheds too, and is named', async () => {
    const guard = make({ limit: 100_000 });
    const rows = hold(guard, 'rows', 500);
    p.heapUsed = 3687;
    await pass(150);
    expect(await rejection(rows.ended)).toMatchObject({
      source: 'breaker',
      pressure: 'heap',
      limit: 3686,
      measured: 3687,
      message: expect.stringContaining('the limit of the V8 heap'),
    });
    expect(of('trip')).toMatchObject([{ source: 'heap', limit: 3686 }]);
  });
});

describe('after a spike', () => {
  it('an idle process accepts work at once, however high RSS stays', async () => {
    const guard = make();
    p.liveBytes = 5000;
    const rows = hold(guard, 'rows', 5000);
    await pass(200);
    expect(rows.task().shed).toBe(true);
    await rejection(rows.ended);
    p.liveBytes = 10;
    p.rssTotal = 10_000;
    p.rssAnon = 10_000;
    const seen = await guard.run('next', async (task) => {
      await task.reserve('rows').grow(900);
      let batches = 0;
      for await (const _ of task.batches([1, 2, 3])) batches += 1;
      return batches;
    });
    expect(seen).toBe(3);
  });

  it('page cache at the limit of the container holds nobody up', async () => {
    p.containerReading = {
      limit: 1000 * MIB,
      anon: 100 * MIB,
      current: 1000 * MIB,
      version: 2,
      path: '/fake',
    };
    p.rssAnon = 100 * MIB;
    p.liveBytes = 90 * MIB;
    const guard = make({ limit: 'auto' });
    expect(guard.limit).toBe(890 * MIB);
    await guard.run('rows', async (task) => {
      expect(task.reserve('rows').tryGrow(700 * MIB)).toBe(true);
    });
  });
});

describe("limit: 'auto'", () => {
  const inContainer = (others: number, own: number) =>
    p.setContainer(1000 * MIB, (others + own) * MIB);

  it('follows what others hold, both ways: it is no ratchet', async () => {
    inContainer(0, 50);
    p.rssAnon = 50 * MIB;
    p.liveBytes = 40 * MIB;
    const guard = make({ limit: 'auto' });
    expect(guard.limit).toBe(890 * MIB);
    const limits: number[] = [];
    for (const others of [300, 600, 100, 0]) {
      inContainer(others, 50);
      await pass(1000, 1000);
      limits.push((guard.limit as number) / MIB);
    }
    expect(limits).toEqual([590, 290, 790, 890]);
    expect(guard.pool.memoryLimit).toEqual({ kind: 'finite', bytes: 890 * MIB });
  });

  it('is not lowered by slack, which can be given back', async () => {
    inContainer(0, 50);
    p.rssAnon = 50 * MIB;
    p.liveBytes = 40 * MIB;
    const guard = make({ limit: 'auto' });
    inContainer(0, 500);
    p.rssAnon = 500 * MIB;
    await pass(5000, 1000);
    expect(guard.limit).toBe(890 * MIB);
  });

  it('is refused above, and sheds only half a margin higher', async () => {
    inContainer(0, 0);
    p.rssAnon = 0;
    const guard = make({ limit: 'auto' });
    expect([guard.limit, guard.breakerLimit]).toEqual([900 * MIB, 950 * MIB]);
    inContainer(500, 0);
    await pass(1000, 1000);
    await guard.run('rows', async (task) => {
      const rows = task.reserve('rows');
      expect([rows.tryGrow(401 * MIB), rows.tryGrow(400 * MIB)]).toEqual([false, true]);
    });
  });

  it('is computed anew before anybody is shed for it', async () => {
    inContainer(0, 600);
    p.rssAnon = 600 * MIB;
    p.liveBytes = 600 * MIB;
    const guard = make({ limit: 'auto' });
    const rows = hold(guard, 'rows', 500 * MIB);
    inContainer(390, 600);
    // The neighbour collects its garbage too.
    onGc = () => {
      expect(guard.limit).toBe(510 * MIB);
      inContainer(200, 600);
    };
    await pass(150);
    expect([rows.task().shed, gcs, guard.limit]).toEqual([false, 1, 700 * MIB]);
    expect(of('reclaim').map(({ kind }) => kind)).toEqual(['garbage', 'slack']);
  });

  it('is none in a container that may have more than the machine has', () => {
    p.setContainer(2 ** 40, 0);
    expect([make({ limit: 'auto' }).limit, make({ limit: 'auto' }).mode]).toEqual([
      undefined,
      'track',
    ]);
  });

  it("warns when V8's heap limit does not fit", () => {
    inContainer(0, 0);
    p.rssAnon = 0;
    p.heapLimit = 901 * MIB;
    const warned: unknown[] = [];
    const guard = createGuard(
      { limit: 'auto' },
      guardDependencies(p, {
        later: (fn) => {
          queueMicrotask(fn);
          return () => undefined;
        },
      }),
    );
    guard.on('warning', (warning) => warned.push(warning.code));
    return Promise.resolve().then(() => expect(warned).toEqual(['ERR_OOM_GUARD_HEAP_LIMIT']));
  });
});

describe('errors and ends', () => {
  it('a shed task that fails with something else still says that it was shed', async () => {
    const guard = make();
    const other = new Error('INTERRUPT Error');
    const ended = guard.run('rows', async (task) => {
      task.reserve('rows').overcommit(500);
      await new Promise((_, reject) => task.signal.addEventListener('abort', () => reject(other)));
    });
    p.liveBytes = 1001;
    const error = rejection(ended);
    await pass(150);
    expect(await error).toBeInstanceOf(ResourcesExhaustedError);
    expect(await error).toMatchObject({ consumer: 'rows', cause: other });
  });

  it('one that wraps the error is left its own', async () => {
    const guard = make();
    const ended = guard.run('rows', async (task) => {
      task.reserve('rows').overcommit(500);
      await new Promise((_, reject) =>
        task.signal.addEventListener('abort', () =>
          reject(new Error('job failed', { cause: task.signal.reason })),
        ),
      );
    });
    p.liveBytes = 1001;
    const error = rejection(ended);
    await pass(150);
    expect(await error).toMatchObject({ message: 'job failed' });
    expect(isResourcesExhausted(await error)).toBe(true);
  });

  it('one that finishes all the same has finished', async () => {
    const guard = make();
    const rows = hold(guard, 'rows', 500);
    rows.end();
    expect(await rows.ended).toBe('rows');
    rows.task().fail(new Error('late'));
    expect(rows.task().shed).toBe(false);
    expect(rows.task().signal.aborted).toBe(false);
  });

  it('checkpoint() throws once the task was shed', async () => {
    const guard = make();
    await guard.run('rows', async (task) => {
      task.reserve('rows').overcommit(500);
      task.checkpoint();
      p.liveBytes = 1001;
      await pass(150);
      expect(() => task.checkpoint()).toThrow(ResourcesExhaustedError);
    });
  });

  it('10,000 tasks leave no timer, no listener and no reservation', async () => {
    const guard = make();
    const before = { timers: timers.size, listeners: guard.eventNames().length };
    for (let i = 0; i < 10_000; i++) {
      await guard.run('task', async (task) => {
        task.reserve('rows').tryGrow(1);
        for await (const _ of task.batches([1])) task.checkpoint();
      });
    }
    expect({ timers: timers.size, listeners: guard.eventNames().length }).toEqual(before);
    expect(guard.stats()).toMatchObject({ tasks: 0, reserved: 0 });
    expect(guard.pool.consumers.size).toBe(0);
    guard.close();
    expect(timers.size).toBe(0);
  });

  it('tasks are known across awaits, each to its own guard', async () => {
    const guard = make();
    const other = make();
    await guard.run('outer', async (outer) => {
      await null;
      expect(guard.currentTask()).toBe(outer);
      expect(other.currentTask()).toBe(undefined);
      await guard.run('inner', async (inner) => {
        await null;
        expect(guard.currentTask()).toBe(inner);
      });
      expect(guard.currentTask()).toBe(outer);
      await other.run('of another guard', async (foreign) => {
        expect(guard.currentTask()).toBe(outer);
        await guard.run('inside', (inside) => expect(inside.parent).toBe(outer));
        expect(other.currentTask()).toBe(foreign);
      });
    });
    expect(guard.currentTask()).toBe(undefined);
  });

  it.each<[MemoryGuardOptions]>([
    [{ victim: 'smallest' as never }],
    [{ victimFloor: 'some' }],
    [{ settleMs: -1 }],
    [{ heapBreakerRatio: 1.5 }],
    [{ breakerLimit: 'more' }],
    [{ breaker: { maxGapMs: -1 } }],
  ])('refuses %o', (bad) => {
    expect(() => make(bad)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_/) }),
    );
    expect(timers.size).toBe(0);
  });

  it('a share of the limit is one of the machine where there is none', () => {
    expect(make({ limit: 'auto', victimFloor: '5%' }).mode).toBe('track');
  });

  it('guardBatches takes a guard, or a task', async () => {
    const guard = make();
    const outside: number[] = [];
    for await (const i of guardBatches([1, 2], guard)) outside.push(i);
    expect(outside).toEqual([1, 2]);
    const ended = guard.run('rows', async (task) => {
      task.reserve('rows').overcommit(900);
      for await (const _ of guardBatches(Array.from({ length: 100 }), guard)) await pass(10);
    });
    p.liveBytes = 1001;
    expect(await rejection(ended)).toMatchObject({ consumer: 'rows', source: 'breaker' });
  });

  it('a refusal tells the limit that would have let it pass', async () => {
    const guard = make();
    const seen: unknown[] = [];
    guard.on('refuse', ({ wouldPassAt }) => seen.push(wouldPassAt));
    p.liveBytes = 1100;
    await guard.run('rows', (task) => {
      const rows = task.reserve('rows');
      rows.tryGrow(300);
      rows.tryGrow(300, { alreadyAllocated: 300 });
    });
    expect(seen).toEqual([1400, 1100]);
  });

  it('refuses a reclaim function that is none', () => {
    expect(() => make().onReclaim(5 as never)).toThrow(/reclaim function must be a function/);
  });
});

describe('diagnostics channels', () => {
  it('tell of trips, a few a second at most, and trace tasks', async () => {
    const messages: Record<string, unknown>[] = [];
    const traced: string[] = [];
    const onMessage = (message: unknown) => messages.push(message as Record<string, unknown>);
    const onStart = (context: unknown) => traced.push((context as TaskSummary).name);
    diagnosticsChannel.subscribe('oom-guard:refuse', onMessage);
    diagnosticsChannel.subscribe('oom-guard:trip', onMessage);
    diagnosticsChannel.subscribe('tracing:oom-guard:task:start', onStart);
    try {
      const guard = make();
      await guard.run('traced', async (task) => {
        const rows = task.reserve('rows');
        for (let i = 0; i < 20; i++) rows.tryGrow(2000);
        p.now += 1000;
        rows.tryGrow(2000);
      });
      expect(messages).toHaveLength(6);
      expect(messages[0]).toMatchObject({ guard, source: 'usage', requested: 2000, suppressed: 0 });
      expect(messages[5]).toMatchObject({ suppressed: 15, wouldPassAt: 2000 });
      expect(traced).toEqual(['traced']);
    } finally {
      diagnosticsChannel.unsubscribe('oom-guard:refuse', onMessage);
      diagnosticsChannel.unsubscribe('oom-guard:trip', onMessage);
      diagnosticsChannel.unsubscribe('tracing:oom-guard:task:start', onStart);
    }
  });
});
