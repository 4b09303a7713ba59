/** FairSpillPool, TrackConsumersPool and what every pool says of itself. */
import { describe, expect, it } from 'vitest';
import type { ResourcesExhaustedError } from '../../lib/errors';
import {
  FairSpillPool,
  GreedyMemoryPool,
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryPool,
  type MemoryReservation,
  RealUsagePool,
  TrackConsumersPool,
  UnboundedMemoryPool,
} from '../../lib/pool';
import { FakeProcess, rejection } from './fakes';

function reserve(pool: MemoryPool, name = 'c', options?: MemoryConsumerOptions): MemoryReservation {
  return new MemoryConsumer(name, options).register(pool);
}

const spills: MemoryConsumerOptions = { canSpill: true };

describe('FairSpillPool', () => {
  it("has DataFusion's numbers", () => {
    const pool = new FairSpillPool(100);
    const r1 = reserve(pool, 'unspillable');
    // Overcommit is their infallible grow.
    r1.overcommit(2000);
    expect(pool.reserved).toBe(2000);
    const r2 = reserve(pool, 'r2', spills);
    r2.overcommit(2000);
    expect(pool.reserved).toBe(4000);
    expect([r2.tryGrow(1), r1.tryGrow(1)]).toEqual([false, false]);
    r1.shrink(1990);
    r2.shrink(2000);
    expect(pool.reserved).toBe(10);
    r1.overcommit(10);
    expect(pool.reserved).toBe(20);
    expect(r2.tryGrow(80)).toBe(true);
    expect(r2.tryGrow(1)).toBe(false);
    r2.free();
    // An idle consumer keeps its share.
    const r3 = reserve(pool, 'r3', spills);
    expect([r3.tryGrow(41), r3.tryGrow(40)]).toEqual([false, true]);
    r2.close();
    expect(r3.tryGrow(40)).toBe(true);
    expect(r3.tryGrow(1)).toBe(false);
  });

  it('counts a consumer once, and its siblings together', () => {
    const pool = new FairSpillPool(100);
    const consumer = new MemoryConsumer('two', spills);
    const [a, b] = [consumer.register(pool), consumer.register(pool)];
    reserve(pool, 'other', spills);
    expect(pool.share).toBe(50);
    expect([a.tryGrow(30), b.tryGrow(21), b.tryGrow(20)]).toEqual([true, false, true]);
    a.close();
    expect(pool.share).toBe(50);
    b.close();
    expect(pool.share).toBe(100);
  });

  it('holds the total to its limit when shares shrank after they were used', () => {
    const pool = new FairSpillPool(100);
    const early = reserve(pool, 'early', spills);
    expect(early.tryGrow(90)).toBe(true);
    const late = reserve(pool, 'late', spills);
    expect([late.tryGrow(11), late.tryGrow(10)]).toEqual([false, true]);
    expect(pool.reserved).toBe(100);
    expect(reserve(pool, 'unspillable').tryGrow(1)).toBe(false);
  });

  it('gives the whole to nobody in particular while nobody can spill', () => {
    const pool = new FairSpillPool(100);
    expect(pool.share).toBe(100);
    const r = reserve(pool);
    expect([r.tryGrow(100), pool.share]).toEqual([true, 0]);
  });

  it('names the share where that refused, and the limit where that did', async () => {
    const pool = new FairSpillPool(100);
    const [a] = [reserve(pool, 'a', spills), reserve(pool, 'b', spills)];
    a.tryGrow(30);
    expect(await rejection(a.grow(21))).toMatchObject({
      source: 'pool',
      limit: 50,
      measured: 30,
      available: 20,
    });
    const stiff = reserve(pool, 'stiff');
    expect(await rejection(stiff.grow(71))).toMatchObject({
      limit: 100,
      measured: 30,
      available: 70,
    });
  });

  it('makes nobody spill for a consumer that has used up its share, but that consumer', async () => {
    const pool = new FairSpillPool(100);
    let others = 0;
    reserve(pool, 'other', { spill: () => void others++ }).tryGrow(50);
    const own: MemoryReservation = reserve(pool, 'own', { spill: () => void own.free() });
    own.tryGrow(40);
    await own.grow(30);
    expect([own.size, others]).toEqual([30, 0]);
  });

  it('says what a consumer may hold', () => {
    const pool = new FairSpillPool(100);
    const a = new MemoryConsumer('a', spills);
    a.register(pool);
    reserve(pool, 'b', spills);
    reserve(pool, 'stiff').tryGrow(20);
    expect(pool.memoryLimitFor(a)).toEqual({ kind: 'finite', bytes: 40 });
    expect(pool.memoryLimitFor(new MemoryConsumer('c'))).toEqual({ kind: 'finite', bytes: 100 });
    expect(String(pool)).toBe('fair(used: 20 B, pool_size: 100 B)');
  });
});

describe('TrackConsumersPool', () => {
  it('reports consumers that hold nothing too, and forgets those that left', () => {
    const pool = new TrackConsumersPool(new GreedyMemoryPool(100));
    const same = [reserve(pool, 'same'), reserve(pool, 'same', spills)];
    same[0]?.tryGrow(20);
    same[1]?.tryGrow(50);
    same[1]?.shrink(45);
    reserve(pool, 'idle').close();
    expect(pool.metrics()).toMatchObject([
      { name: 'same', reserved: 20, peak: 20, canSpill: false },
      { name: 'same', reserved: 5, peak: 50, canSpill: true },
    ]);
    const [first, second] = pool.metrics().map(({ id }) => id);
    expect(pool.reportTop()).toBe(
      `same#${first}(can spill: no) consumed 20 B, peak 20 B\n` +
        `same#${second}(can spill: yes) consumed 5 B, peak 50 B`,
    );
    expect(pool.reportTop(1)).not.toContain(`#${second}`);
  });

  it('names as many as it is told to in the error, and passes others through', async () => {
    const pool = new TrackConsumersPool(new GreedyMemoryPool(100), 2);
    for (const [name, bytes] of Object.entries({ a: 1, b: 6, c: 2 })) {
      reserve(pool, name).tryGrow(bytes);
    }
    const asking = reserve(pool, 'asking');
    const error = (await rejection(asking.grow(100))) as ResourcesExhaustedError;
    expect(error.consumers.map(({ name }) => name)).toEqual(['b', 'c']);
    expect(error.message).toMatch(/Largest consumers: b#\d+ 6 B \(cannot spill\); c#\d+ 2 B/);
    const signal = AbortSignal.abort(new Error('enough'));
    expect(await rejection(asking.grow(100, { signal }))).toMatchObject({ message: 'enough' });
  });

  it('leaves the order of arrival to the pool that decides', async () => {
    const inner = new GreedyMemoryPool(100);
    const pool = new TrackConsumersPool(inner);
    const spiller: MemoryReservation = reserve(pool, 'spiller', {
      spill: async () => {
        expect(reserve(inner, 'direct').tryGrow(10)).toBe(true);
        spiller.shrink(50);
      },
    });
    spiller.tryGrow(80);
    const asking = reserve(pool, 'asking');
    const granted = asking.grow(60);
    expect([pool.mustQueue(), inner.mustQueue()]).toEqual([true, true]);
    await granted;
    expect([asking.size, pool.reserved]).toEqual([60, 100]);
  });

  it.each([[0], [1.5], ['5'], [Number.NaN]])('refuses to name %s', (top) => {
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' });
    const inner = new GreedyMemoryPool(1);
    expect(() => new TrackConsumersPool(inner, top as number)).toThrow(error);
    expect(() => new TrackConsumersPool(inner).reportTop(top as number)).toThrow(error);
  });
});

describe('limit and description', () => {
  it.each<[MemoryPool, string, object]>([
    [new UnboundedMemoryPool(), 'unbounded(used: 0 B)', { kind: 'infinite' }],
    [new GreedyMemoryPool(10), 'greedy(used: 0 B, pool_size: 10 B)', { kind: 'finite', bytes: 10 }],
    [new FairSpillPool(10), 'fair(used: 0 B, pool_size: 10 B)', { kind: 'finite', bytes: 10 }],
  ])('of %s pass through every wrapper', (inner, description, limit) => {
    const readings = new FakeProcess();
    const real = new RealUsagePool(inner, { limit: 5, readings });
    for (const pool of [inner, new TrackConsumersPool(inner), real, new TrackConsumersPool(real)]) {
      expect(String(pool)).toBe(description);
      expect(pool.memoryLimit).toEqual(limit);
      expect(pool.memoryLimitFor(new MemoryConsumer('c'))).toEqual(limit);
    }
  });

  it.each([[undefined], [{}], [7]])('a wrapper refuses to wrap %s', (inner) => {
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' });
    expect(() => new TrackConsumersPool(inner as never)).toThrow(error);
    expect(() => new MemoryConsumer('c').register(inner as never)).toThrow(error);
    expect(
      () => new RealUsagePool(inner as never, { limit: 1, readings: new FakeProcess() }),
    ).toThrow(error);
  });
});

describe('MemoryConsumer.cloneWithNewId', () => {
  it('keeps name, place and whether it can spill, not the callback', () => {
    const original = new MemoryConsumer('c', { spill: () => {}, in: 'heap' });
    const clone = original.cloneWithNewId();
    expect(clone.id).not.toBe(original.id);
    expect(clone).toMatchObject({ name: 'c', in: 'heap', canSpill: true, spill: undefined });
    const spill = () => {};
    expect(new MemoryConsumer('c').cloneWithNewId(spill)).toMatchObject({ spill, canSpill: true });
  });

  it.each([[{ canSpill: 'yes' }], [{ canSpill: false, spill: () => {} }], [null]])(
    'options %o are refused',
    (options) => {
      expect(() => new MemoryConsumer('c', options as never)).toThrow(
        expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
      );
    },
  );
});
