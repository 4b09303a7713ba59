import { describe, expect, it } from 'vitest';
import { ResourcesExhaustedError } from '../../lib/errors';
import {
  FairSpillPool,
  GreedyMemoryPool,
  MemoryConsumer,
  type MemoryPool,
  type MemoryReservation,
  type PoolObserver,
  RealUsagePool,
  UnboundedMemoryPool,
} from '../../lib/pool';
import { BAD_BYTES, FakeProcess, rejection } from './fakes';

function reserve(
  pool: MemoryPool,
  name = 'c',
  options?: ConstructorParameters<typeof MemoryConsumer>[1],
): MemoryReservation {
  return new MemoryConsumer(name, options).register(pool);
}

function state(pool: MemoryPool, reservation: MemoryReservation): unknown[] {
  return [
    pool.reserved,
    reservation.size,
    reservation.overcommitted,
    reservation.closed,
    pool.consumers.largest(),
  ];
}

describe('MemoryConsumer', () => {
  it('is known by a unique id; names may repeat', () => {
    const [a, b] = [new MemoryConsumer('same'), new MemoryConsumer('same')];
    expect(a.id).not.toBe(b.id);
    expect(a.canSpill).toBe(false);
    expect(a.in).toBe('native');
    expect(new MemoryConsumer('c', { spill: () => {} }).canSpill).toBe(true);
  });

  it.each([
    ['', {}],
    [7, {}],
    ['c', { spill: 'no' }],
    ['c', { in: 'gpu' }],
  ])('refuses %j with %j', (name, options) => {
    expect(() => new MemoryConsumer(name as string, options as object)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
    );
  });
});

const real = new FakeProcess();
describe.each<[string, () => MemoryPool]>([
  ['GreedyMemoryPool', () => new GreedyMemoryPool(1000)],
  ['UnboundedMemoryPool', () => new UnboundedMemoryPool()],
  [
    'RealUsagePool',
    () =>
      new RealUsagePool(new GreedyMemoryPool(1000), {
        limit: 1000,
        readings: real,
        clock: real.clock,
      }),
  ],
])('%s', (_name, makePool) => {
  it('grows, shrinks, frees and closes', async () => {
    const pool = makePool();
    const r = reserve(pool);
    expect(r.tryGrow(100)).toBe(true);
    await r.grow(50);
    r.overcommit(25);
    expect([r.size, r.overcommitted, pool.reserved]).toEqual([175, 25, 175]);
    r.shrink(35);
    expect([r.size, r.overcommitted, pool.reserved]).toEqual([140, 0, 140]);
    expect(r.free()).toBe(140);
    expect(r.tryGrow(10)).toBe(true);
    r.close();
    r.close();
    expect([r.size, r.closed, pool.reserved, pool.consumers.size]).toEqual([0, true, 0, 0]);
  });

  it('is disposable', async () => {
    const pool = makePool();
    {
      using r = reserve(pool);
      r.tryGrow(10);
    }
    {
      await using r = reserve(pool);
      r.tryGrow(10);
    }
    expect([pool.reserved, pool.consumers.size]).toEqual([0, 0]);
  });

  it('counts siblings of a consumer together', () => {
    const pool = makePool();
    const consumer = new MemoryConsumer('two');
    const [a, b] = [consumer.register(pool), consumer.register(pool)];
    a.tryGrow(10);
    b.tryGrow(20);
    expect(pool.consumers.largest()).toMatchObject([{ name: 'two', reserved: 30 }]);
    a.close();
    expect(pool.consumers.largest()).toMatchObject([{ reserved: 20, peak: 30 }]);
    b.close();
    expect(pool.consumers.size).toBe(0);
  });

  it('refuses what is no number of bytes and stays as it was', async () => {
    const pool = makePool();
    const r = reserve(pool);
    r.tryGrow(100);
    const before = state(pool, r);
    for (const bad of BAD_BYTES) {
      const bytes = bad as number;
      const error = expect.objectContaining({
        code: 'ERR_OOM_GUARD_INVALID_BYTES',
        value: bad,
        message: expect.stringContaining('whole number of bytes'),
      });
      const type = typeof bad === 'number' ? RangeError : TypeError;
      for (const call of [
        () => r.tryGrow(bytes),
        () => r.overcommit(bytes),
        () => r.shrink(bytes),
        () => r.allocated(bytes),
      ]) {
        expect(call).toThrow(error);
        expect(call).toThrow(type);
      }
      expect(await rejection(r.grow(bytes))).toEqual(error);
      if (bad !== undefined) {
        expect(() => r.tryGrow(5, { alreadyAllocated: bytes })).toThrow(error);
      }
    }
    expect(() => r.tryGrow(5, { alreadyAllocated: 6 })).toThrow(RangeError);
    expect(() => r.shrink(101)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_BYTES', value: 101 }),
    );
    expect(state(pool, r)).toEqual(before);
  });

  it('refuses everything on a closed reservation', async () => {
    const pool = makePool();
    const r = reserve(pool);
    r.close();
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_RELEASED' });
    for (const call of [
      () => r.tryGrow(0),
      () => r.overcommit(1),
      () => r.shrink(0),
      () => r.allocated(0),
      () => r.free(),
    ]) {
      expect(call).toThrow(error);
      expect(call).toThrow(TypeError);
    }
    expect(await rejection(r.grow(1))).toEqual(error);
    expect(pool.reserved).toBe(0);
  });

  it('does not overflow', () => {
    const pool = makePool();
    const r = reserve(pool);
    r.overcommit(Number.MAX_SAFE_INTEGER);
    const before = state(pool, r);
    expect(() => r.overcommit(1)).toThrow(RangeError);
    expect(state(pool, r)).toEqual(before);
  });
});

describe('GreedyMemoryPool', () => {
  it('grants what is equal to its limit and refuses one byte more', () => {
    const pool = new GreedyMemoryPool('1000B');
    const r = reserve(pool);
    expect(r.tryGrow(1001)).toBe(false);
    expect(r.tryGrow(1000)).toBe(true);
    expect(r.tryGrow(0)).toBe(true);
    expect(r.tryGrow(1)).toBe(false);
    expect(r.tryGrow(Number.MAX_SAFE_INTEGER)).toBe(false);
    expect(r.size).toBe(1000);
    expect(String(pool)).toBe('greedy(used: 1000 B, pool_size: 1000 B)');
    expect(pool.memoryLimit).toEqual({ kind: 'finite', bytes: 1000 });
  });

  it('refuses requests while it is overcommitted, but not zero bytes', () => {
    const pool = new GreedyMemoryPool(100);
    const r = reserve(pool);
    r.overcommit(150);
    expect([r.tryGrow(1), r.tryGrow(0)]).toEqual([false, true]);
    r.shrink(60);
    expect([r.tryGrow(10), r.tryGrow(1)]).toEqual([true, false]);
  });

  it.each([[0], [-5], ['70%'], ['lots'], [Number.POSITIVE_INFINITY]])('refuses %s', (limit) => {
    expect(() => new GreedyMemoryPool(limit)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_SIZE' }),
    );
  });
});

describe('spilling', () => {
  it('asks the largest first, measures after each and stops when there is room', async () => {
    const pool = new GreedyMemoryPool(1000);
    const order: string[] = [];
    const make = (name: string, bytes: number, freed: number): MemoryReservation => {
      const r: MemoryReservation = reserve(pool, name, {
        spill: (requested) => {
          order.push(`${name}:${requested}`);
          r.shrink(freed);
        },
      });
      r.tryGrow(bytes);
      return r;
    };
    make('small', 100, 100);
    make('large', 400, 50);
    make('middle', 300, 300);
    reserve(pool, 'stiff').tryGrow(200);
    const asking = reserve(pool, 'asking');
    await asking.grow(250);
    expect(order).toEqual(['large:250', 'middle:250']);
    expect([asking.size, pool.reserved]).toEqual([250, 900]);
  });

  it('asks again who has freed something, until there is room', async () => {
    const pool = new GreedyMemoryPool(1000);
    const order: string[] = [];
    const make = (name: string, bytes: number, step: number): void => {
      const r: MemoryReservation = reserve(pool, name, {
        spill: () => {
          order.push(name);
          r.shrink(Math.min(step, r.size));
        },
      });
      r.tryGrow(bytes);
    };
    make('large', 500, 100);
    make('idle', 300, 0);
    make('small', 200, 50);
    const asking = reserve(pool, 'asking');
    await asking.grow(350);
    expect(order).toEqual(['large', 'idle', 'small', 'large', 'small', 'large']);
    expect([asking.size, pool.reserved]).toEqual([350, 950]);
  });

  it('asks for all that is missing, not only for the request', async () => {
    const pool = new FairSpillPool(1000);
    const asked: number[] = [];
    const wide: MemoryReservation = reserve(pool, 'wide', {
      spill: (bytes) => {
        asked.push(bytes);
        wide.shrink(bytes);
      },
    });
    wide.tryGrow(900);
    // Another that can spill halves the share of the first, which is now far over it.
    const newcomer = reserve(pool, 'newcomer', { spill: () => {} });
    newcomer.tryGrow(10);
    await wide.grow(20);
    expect(asked).toEqual([420]);
    expect(wide.size).toBe(500);
  });

  it('asks the consumer that wants to grow itself, and waits for it', async () => {
    const pool = new GreedyMemoryPool(100);
    const r: MemoryReservation = reserve(pool, 'self', {
      spill: async () => {
        await null;
        r.free();
      },
    });
    r.tryGrow(100);
    await r.grow(60);
    expect(r.size).toBe(60);
  });

  it('names the callbacks that threw or freed nothing, asks each once, and changes nothing', async () => {
    const observed: unknown[] = [];
    const observer: PoolObserver = {
      refused: (source, { consumer }, bytes) => observed.push([source, consumer.name, bytes]),
      spilled: ({ freed, error }) => observed.push([freed, error]),
    };
    const pool = new GreedyMemoryPool(1000, { observer });
    const full = new Error('disk full');
    reserve(pool, 'broken', {
      spill: () => {
        throw full;
      },
    }).tryGrow(600);
    reserve(pool, 'idle', { spill: () => {} }).tryGrow(300);
    const asking = reserve(pool, 'asking', { spill: () => {} });
    const error = await rejection(asking.grow(200));
    expect(error).toBeInstanceOf(ResourcesExhaustedError);
    expect(error).toMatchObject({
      source: 'pool',
      requested: 200,
      reserved: 900,
      limit: 1000,
      available: 100,
      cause: full,
      consumers: [{ name: 'broken' }, { name: 'idle' }],
    });
    expect((error as ResourcesExhaustedError).spillFailures).toEqual([
      expect.stringMatching(/^broken#\d+ failed \(disk full\)$/),
      expect.stringMatching(/^idle#\d+ freed nothing$/),
    ]);
    expect(observed).toEqual([
      [0, full],
      [0, undefined],
      ['pool', 'asking', 200],
    ]);
    expect([asking.size, pool.reserved]).toEqual([0, 900]);
  });

  it('gathers several causes', async () => {
    const pool = new GreedyMemoryPool(100);
    for (const name of ['a', 'b']) {
      reserve(pool, name, { spill: () => Promise.reject(new Error(name)) }).tryGrow(50);
    }
    const error = await rejection(reserve(pool).grow(1));
    expect((error as Error).cause).toBeInstanceOf(AggregateError);
  });

  it('disturbs nobody for what could never fit', async () => {
    const pool = new GreedyMemoryPool(100);
    let spills = 0;
    reserve(pool, 'bystander', { spill: () => void spills++ }).tryGrow(50);
    expect(await rejection(reserve(pool).grow(101))).toBeInstanceOf(ResourcesExhaustedError);
    expect(spills).toBe(0);
  });

  it('grants or refuses at once what a callback asks for: nothing waits for itself', async () => {
    const pool = new GreedyMemoryPool(100);
    const seen: unknown[] = [];
    const helper = reserve(pool, 'helper', { spill: () => void seen.push('re-entered') });
    const r: MemoryReservation = reserve(pool, 'spiller', {
      spill: async () => {
        seen.push((await rejection(helper.grow(50))) instanceof ResourcesExhaustedError);
        r.shrink(80);
        await helper.grow(50);
        helper.free();
      },
    });
    r.tryGrow(90);
    const asking = reserve(pool, 'asking');
    await asking.grow(40);
    expect(seen).toEqual([true]);
    expect([asking.size, r.size]).toEqual([40, 10]);
  });

  it('lets work that a callback started and left behind wait like anyone else', async () => {
    const pool = new GreedyMemoryPool(100);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    let leftBehind: Promise<void> | undefined;
    const late: MemoryReservation = reserve(pool, 'late');
    const r: MemoryReservation = reserve(pool, 'spiller', {
      spill: () => {
        leftBehind ??= gate.then(() => late.grow(60));
        r.shrink(Math.min(60, r.size));
      },
    });
    r.tryGrow(100);
    const asking = reserve(pool, 'asking');
    await asking.grow(60);
    release();
    // 40 are left to spill: not enough, but it was asked, which a spill's own request never does.
    expect(await rejection(leftBehind as Promise<void>)).toBeInstanceOf(ResourcesExhaustedError);
    expect(r.size).toBe(0);
  });
});

describe('several who wait', () => {
  it('are served in order of arrival, and newcomers do not pass them', async () => {
    const pool = new GreedyMemoryPool(100);
    const done: string[] = [];
    let finish = () => {};
    const spilling = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const r: MemoryReservation = reserve(pool, 'spiller', {
      spill: async () => {
        await spilling;
        r.free();
      },
    });
    r.tryGrow(95);
    const ask = async (name: string, bytes: number) => {
      await reserve(pool, name).grow(bytes);
      done.push(name);
    };
    // The last would fit at once.
    const all = [ask('first', 50), ask('second', 20), ask('third', 1)];
    await Promise.resolve();
    expect(done).toEqual([]);
    finish();
    await Promise.all(all);
    expect(done).toEqual(['first', 'second', 'third']);
    expect(pool.reserved).toBe(71);
  });

  it('go on after one that failed', async () => {
    const pool = new GreedyMemoryPool(100);
    reserve(pool, 'holder').tryGrow(50);
    const failing = rejection(reserve(pool).grow(80));
    const following = reserve(pool, 'following');
    const granted = following.grow(50);
    expect(await failing).toBeInstanceOf(ResourcesExhaustedError);
    await granted;
    expect(following.size).toBe(50);
  });

  it('get nothing when their reservation was closed meanwhile', async () => {
    const pool = new GreedyMemoryPool(100);
    const asking = reserve(pool, 'asking');
    const r: MemoryReservation = reserve(pool, 'spiller', {
      spill: () => {
        asking.close();
        r.free();
      },
    });
    r.tryGrow(100);
    expect(await rejection(asking.grow(10))).toMatchObject({ code: 'ERR_OOM_GUARD_RELEASED' });
    expect(pool.reserved).toBe(0);
  });
});

describe('the largest consumers', () => {
  it('are at most five, largest first', async () => {
    const pool = new GreedyMemoryPool(100);
    for (const [name, bytes] of Object.entries({ a: 1, b: 6, c: 2, d: 5, e: 3, f: 4, g: 0 })) {
      reserve(pool, name).tryGrow(bytes);
    }
    const error = (await rejection(reserve(pool).grow(100))) as ResourcesExhaustedError;
    expect(error.consumers.map(({ name }) => name)).toEqual(['b', 'd', 'f', 'e', 'c']);
  });
});
