/** What a reservation can do beside growing, and what becomes of one that is dropped. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import {
  FairSpillPool,
  GreedyMemoryPool,
  type LeakReport,
  MemoryConsumer,
  type MemoryPool,
  type MemoryReservation,
  RealUsagePool,
  TrackConsumersPool,
  UnboundedMemoryPool,
} from '../../lib/pool';
import { BAD_BYTES, FakeProcess, rejection } from './fakes';

const readings = new FakeProcess();
readings.heapLimit = 10_000;
const pools: [string, () => MemoryPool][] = [
  ['GreedyMemoryPool', () => new GreedyMemoryPool(1000)],
  ['UnboundedMemoryPool', () => new UnboundedMemoryPool()],
  ['FairSpillPool', () => new FairSpillPool(1000)],
  ['TrackConsumersPool', () => new TrackConsumersPool(new GreedyMemoryPool(1000))],
  [
    'RealUsagePool',
    () => new RealUsagePool(new FairSpillPool(1000), { limit: 1000, readings, clock: () => 0 }),
  ],
];

describe.each(pools)('a reservation in %s', (_name, makePool) => {
  const holding = (bytes: number): { pool: MemoryPool; r: MemoryReservation } => {
    const pool = makePool();
    const r = new MemoryConsumer('c').register(pool);
    r.tryGrow(bytes);
    return { pool, r };
  };

  it('shrinks if it can', () => {
    const { pool, r } = holding(100);
    expect([r.tryShrink(101), r.size]).toEqual([false, 100]);
    expect([r.tryShrink(40), r.size, pool.reserved]).toEqual([true, 60, 60]);
  });

  it('is resized both ways', async () => {
    const { pool, r } = holding(100);
    await r.resize(40);
    expect([r.size, pool.reserved]).toEqual([40, 40]);
    await r.resize(500);
    expect([r.size, r.tryResize(300), r.tryResize(800), r.tryResize(800)]).toEqual([
      500,
      true,
      true,
      true,
    ]);
    if (pool.memoryLimit.kind === 'finite') {
      expect(r.tryResize(1001)).toBe(false);
      expect(await rejection(r.resize(1001))).toMatchObject({ requested: 201 });
    }
    expect([r.size, pool.reserved]).toEqual([800, 800]);
  });

  it('is divided, and the total stays', () => {
    const { pool, r } = holding(100);
    r.overcommit(50);
    const part = r.split(110);
    expect([r.size, r.overcommitted, part.size, part.overcommitted]).toEqual([40, 40, 110, 10]);
    expect(part.consumer).toBe(r.consumer);
    const all = r.take();
    expect([r.size, all.size, all.overcommitted, pool.reserved]).toEqual([0, 40, 40, 150]);
    const empty = all.newEmpty();
    expect([empty.size, pool.consumers.size]).toEqual([0, 1]);
    expect(pool.consumers.largest()).toMatchObject([{ reserved: 150, overcommitted: 50 }]);
    for (const each of [r, part, all]) {
      each.close();
      expect(pool.consumers.size).toBe(1);
    }
    empty.close();
    expect([pool.reserved, pool.consumers.size]).toEqual([0, 0]);
  });

  it('stays as it was when what it is told makes no sense', async () => {
    const { pool, r } = holding(100);
    for (const bad of [...BAD_BYTES, 101]) {
      const bytes = bad as number;
      const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_BYTES', value: bad });
      expect(() => r.split(bytes)).toThrow(error);
      if (bad !== 101) {
        expect(() => r.tryShrink(bytes)).toThrow(error);
        expect(() => r.tryResize(bytes)).toThrow(error);
        expect(await rejection(r.resize(bytes))).toEqual(error);
      }
    }
    expect([r.size, pool.reserved, pool.consumers.all()]).toMatchObject([
      100,
      100,
      [{ reserved: 100 }],
    ]);
    r.close();
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_RELEASED' });
    for (const call of [
      () => r.split(0),
      () => r.take(),
      () => r.newEmpty(),
      () => r.tryShrink(0),
      () => r.tryResize(0),
    ]) {
      expect(call).toThrow(error);
    }
    expect(await rejection(r.resize(0))).toEqual(error);
  });

  it('takes only signals and deadlines that are some', async () => {
    const { pool, r } = holding(100);
    for (const options of [
      { signal: {} },
      { signal: null },
      { deadlineMs: -1 },
      { deadlineMs: Number.NaN },
      { deadlineMs: Number.POSITIVE_INFINITY },
      { deadlineMs: '5' },
    ]) {
      expect(await rejection(r.grow(1, options as never))).toMatchObject({
        code: 'ERR_OOM_GUARD_INVALID_ARGUMENT',
      });
    }
    expect(pool.reserved).toBe(100);
  });
});

describe('pending grants', () => {
  it('go with the bytes that are split off', () => {
    const p = new FakeProcess();
    const pool = new RealUsagePool(new UnboundedMemoryPool(), {
      limit: 1000,
      readings: p,
      clock: p.clock,
    });
    const r = new MemoryConsumer('c').register(pool);
    r.tryGrow(300);
    const part = r.split(100);
    expect(pool.pending).toBe(300);
    part.allocated(1000);
    expect(pool.pending).toBe(200);
    r.allocated(1000);
    expect(pool.pending).toBe(0);
    part.close();
    r.close();
    expect([pool.pending, pool.reserved]).toEqual([0, 0]);
  });
});

describe('a reservation that is dropped', () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const collectUntil = async (done: () => boolean): Promise<void> => {
    for (let i = 0; i < 100 && !done(); i++) {
      gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const drop = (pool: MemoryPool, name: string, bytes: number): void => {
    new MemoryConsumer(name).register(pool).overcommit(bytes);
  };

  it.each(pools)('in %s is reported by name, and its bytes return', async (_name, makePool) => {
    const inner = makePool();
    const leaks: LeakReport[] = [];
    const observer = {
      refused: () => {},
      spilled: () => {},
      leaked: (report: LeakReport) => void leaks.push(report),
    };
    const pool = new RealUsagePool(inner, { limit: 1000, readings, clock: () => 0, observer });
    drop(pool, 'forgotten', 70);
    drop(pool, 'empty', 0);
    expect([pool.reserved, pool.consumers.size]).toEqual([70, 2]);
    await collectUntil(() => pool.consumers.size === 0);
    expect(leaks).toEqual([{ consumer: expect.stringMatching(/^forgotten#\d+$/), bytes: 70 }]);
    expect([pool.reserved, pool.totalReserved, pool.consumers.size]).toEqual([0, 0, 0]);
  });

  it('is a warning of the process when nobody observes, one for each name', async () => {
    const warnings: (Error & { code?: string })[] = [];
    const note = (warning: Error) => void warnings.push(warning);
    process.on('warning', note);
    try {
      const pool = new GreedyMemoryPool(1000);
      drop(pool, 'quietly dropped', 10);
      drop(pool, 'quietly dropped', 20);
      await collectUntil(() => pool.reserved === 0);
      await new Promise((resolve) => setImmediate(resolve));
      const own = warnings.filter(({ message }) => message.includes('quietly dropped'));
      expect(own).toMatchObject([{ name: 'OomGuardWarning', code: 'ERR_OOM_GUARD_LEAKED' }]);
    } finally {
      process.off('warning', note);
    }
  });

  it('is not one when it was closed', async () => {
    const leaks: LeakReport[] = [];
    const pool = new GreedyMemoryPool(1000, {
      observer: { refused: () => {}, spilled: () => {}, leaked: (r) => void leaks.push(r) },
    });
    (() => {
      const r = new MemoryConsumer('closed').register(pool);
      r.tryGrow(10);
      r.close();
    })();
    drop(pool, 'dropped', 1);
    await collectUntil(() => leaks.length > 0);
    expect(leaks).toMatchObject([{ bytes: 1 }]);
  });
});
