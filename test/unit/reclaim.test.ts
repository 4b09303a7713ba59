import { describe, expect, it } from 'vitest';
import { collectGarbage, MemoryReclaimer, type ReclaimReport } from '../../lib/reclaim';
import { FakeProcess, MIB } from './fakes';

function setup(overrides: Partial<ConstructorParameters<typeof MemoryReclaimer>[0]> = {}) {
  const p = new FakeProcess();
  p.rssAnon = 900;
  p.liveBytes = 500;
  const log: string[] = [];
  const reports: ReclaimReport[] = [];
  const reclaimer = new MemoryReclaimer({
    trim: async () => {
      log.push('trim');
      p.now += 20;
      p.rssAnon = 600;
    },
    gc: () => {
      log.push('gc');
      p.now += 5;
    },
    setTurn: async () => {
      log.push('turn');
      p.liveBytes = 100;
    },
    readings: p,
    clock: p.clock,
    delay: async (ms) => {
      log.push(`delay ${ms}`);
      p.now += ms;
    },
    onReport: (report) => reports.push(report),
    ...overrides,
  });
  return { p, log, reports, reclaimer };
}

describe('MemoryReclaimer', () => {
  it('measures what came back', async () => {
    const { reclaimer, reports } = setup();
    const slack = await reclaimer.releaseSlack();
    expect(slack).toEqual({
      kind: 'slack',
      suppressed: false,
      liveBefore: 500,
      liveAfter: 500,
      anonBefore: 900,
      anonAfter: 600,
      ms: 20,
      error: undefined,
    });
    const garbage = await reclaimer.collectGarbage();
    expect(garbage).toMatchObject({ kind: 'garbage', liveBefore: 500, liveAfter: 100, ms: 5 });
    expect(reports).toEqual([slack, garbage]);
  });

  it('lets a turn of the event loop pass after the collection', async () => {
    const { reclaimer, log } = setup();
    await reclaimer.collectGarbage();
    expect(log).toEqual(['gc', 'turn']);
  });

  it.each([
    ['releaseSlack', 100],
    ['collectGarbage', 250],
  ] as const)('%s: not again within %d ms, and it says so', async (method, interval) => {
    const { p, reclaimer, log, reports } = setup();
    await reclaimer[method]();
    const done = log.length;
    p.now += interval - 1;
    expect(await reclaimer[method]()).toMatchObject({ suppressed: true, ms: 0 });
    expect(log).toHaveLength(done);
    p.now += 1;
    expect(await reclaimer[method]()).toMatchObject({ suppressed: false });
    expect(log).toHaveLength(2 * done);
    expect(reports).toHaveLength(2);
  });

  it.each(['liveBytes', 'heapUsed'] as const)(
    'collects before its time when %s has grown by what is needed, and by 8 MiB',
    async (grown) => {
      const { p, reclaimer, log } = setup();
      p.heapUsed = 50 * MIB;
      await reclaimer.collectGarbage();
      const ask = async (needed?: number) =>
        !(await reclaimer.collectGarbage({ needed })).suppressed;
      expect([await ask(), await ask(1)]).toEqual([false, false]);
      p[grown] += 8 * MIB - 1;
      expect(await ask(1)).toBe(false);
      p[grown] += 1;
      expect([await ask(), await ask(9 * MIB), await ask(8 * MIB)]).toEqual([false, false, true]);
      // From here it counts anew, in the heap; live bytes fall with the turn.
      expect(await ask(1)).toBe(false);
      expect(log).toEqual(['gc', 'turn', 'gc', 'turn']);
    },
  );

  it('limits the two apart from each other', async () => {
    const { reclaimer } = setup();
    await reclaimer.releaseSlack();
    expect((await reclaimer.collectGarbage()).suppressed).toBe(false);
  });

  it('is shared by those who ask while it runs', async () => {
    const { reclaimer, log } = setup();
    const all = await Promise.all([reclaimer.releaseSlack(), reclaimer.releaseSlack()]);
    expect(all[0]).toBe(all[1]);
    expect(log).toEqual(['trim']);
  });

  it('runs at once when told, but never two at a time, and once for all who wait', async () => {
    const { reclaimer, log } = setup();
    const first = reclaimer.releaseSlack();
    const [second, third] = await Promise.all([
      reclaimer.releaseSlack({ whenLimited: 'run' }),
      reclaimer.releaseSlack({ whenLimited: 'run' }),
    ]);
    expect(second).toBe(third);
    expect(second).not.toBe(await first);
    expect(log).toEqual(['trim', 'trim']);
    await reclaimer.releaseSlack({ whenLimited: 'run' });
    expect(log).toEqual(['trim', 'trim', 'trim']);
  });

  it('waits for the interval to pass when told', async () => {
    const { p, reclaimer, log } = setup();
    await reclaimer.releaseSlack();
    p.now += 30;
    expect(await reclaimer.releaseSlack({ whenLimited: 'wait' })).toMatchObject({
      suppressed: false,
    });
    expect(log).toEqual(['trim', 'delay 70', 'trim']);
  });

  it('takes a run that began after the given time instead of waiting', async () => {
    const { p, reclaimer, log } = setup();
    const since = p.now;
    p.now += 1;
    const run = await reclaimer.releaseSlack();
    expect(await reclaimer.releaseSlack({ whenLimited: 'wait', since })).toBe(run);
    expect(log).toEqual(['trim']);
    await reclaimer.releaseSlack({ whenLimited: 'wait', since: p.now });
    expect(log).toEqual(['trim', 'delay 100', 'trim']);
  });

  it('reports what it failed with, and works the next time', async () => {
    const failure = new Error('no trim');
    let fail = true;
    const { p, reclaimer } = setup({
      trim: async () => {
        if (fail) {
          throw failure;
        }
      },
    });
    expect(await reclaimer.releaseSlack()).toMatchObject({ suppressed: false, error: failure });
    fail = false;
    p.now += 100;
    expect(await reclaimer.releaseSlack()).toMatchObject({ error: undefined });
  });
});

describe('collectGarbage', () => {
  it('collects without --expose-gc and leaves no gc behind', async () => {
    expect(globalThis.gc).toBeUndefined();
    // In a function of its own, so that no register of this one still holds the object.
    const ref = (() => new WeakRef({ big: new Array(1000).fill(0) }))();
    // A WeakRef keeps its target until the turn ends.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(ref.deref() === undefined).toBe(true);
    expect(globalThis.gc).toBeUndefined();
  });

  it('has freed dropped Buffers when it returns', async () => {
    collectGarbage();
    const before = process.memoryUsage().arrayBuffers;
    (() => Array.from({ length: 64 }, () => Buffer.alloc(2 ** 20, 1)))();
    expect(process.memoryUsage().arrayBuffers - before).toBeGreaterThan(60 * 2 ** 20);
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 20);
  });
});
