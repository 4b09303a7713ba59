import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ResourcesExhaustedError } from '../../lib/errors';
import {
  GreedyMemoryPool,
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryReservation,
  RealUsagePool,
  type RealUsagePoolOptions,
  UnboundedMemoryPool,
} from '../../lib/pool';
import { FakeProcess, FakeReclaimer, MIB, rejection } from './fakes';

let p: FakeProcess;
let reclaimer: FakeReclaimer;
let inner: GreedyMemoryPool;

beforeEach(() => {
  p = new FakeProcess();
  reclaimer = new FakeReclaimer();
  inner = new GreedyMemoryPool(1_000_000);
});

function makePool(options: Partial<RealUsagePoolOptions> = {}): RealUsagePool {
  return new RealUsagePool(inner, {
    limit: 1000,
    readings: p,
    reclaimer,
    clock: p.clock,
    delay: p.delay,
    ...options,
  });
}

function reserve(
  pool: RealUsagePool,
  name = 'c',
  options?: MemoryConsumerOptions,
): MemoryReservation {
  return new MemoryConsumer(name, options).register(pool);
}

describe('usage', () => {
  it.each([
    [0, 1000, true],
    [0, 1001, false],
    [400, 600, true],
    [400, 601, false],
    [1000, 1, false],
    [-50, 1050, true],
  ])('of %d lets %d in: %s', (live, bytes, granted) => {
    p.liveBytes = live;
    const r = reserve(makePool());
    expect(r.tryGrow(bytes)).toBe(granted);
    expect([r.size, inner.reserved]).toEqual(granted ? [bytes, bytes] : [0, 0]);
  });

  it('counts the used heap with the live bytes', () => {
    p.liveBytes = 300;
    p.heapUsed = 300;
    const r = reserve(makePool());
    expect([r.tryGrow(401), r.tryGrow(400)]).toEqual([false, true]);
  });

  it('far over the limit refuses neither zero bytes nor giving back', async () => {
    const r = reserve(makePool());
    r.tryGrow(100);
    p.liveBytes = 5000;
    expect(r.tryGrow(0)).toBe(true);
    await r.grow(0);
    r.shrink(40);
    expect([r.size, inner.reserved]).toEqual([60, 60]);
    r.close();
    expect(inner.reserved).toBe(0);
  });

  it('does not overflow', () => {
    p.liveBytes = Number.MAX_SAFE_INTEGER;
    expect(reserve(makePool()).tryGrow(Number.MAX_SAFE_INTEGER)).toBe(false);
  });

  it('is asked before the inner pool, which sees no refused request', () => {
    let asked = 0;
    inner.requestGrow = () => {
      asked += 1;
      return 'pool';
    };
    const r = reserve(makePool());
    p.liveBytes = 1000;
    expect(r.tryGrow(1)).toBe(false);
    expect(asked).toBe(0);
    p.liveBytes = 0;
    expect(r.tryGrow(1)).toBe(false);
    expect(asked).toBe(1);
    expect(makePool().pending).toBe(0);
  });

  it('passes limit, description and consumers of the inner pool through', () => {
    const pool = makePool();
    expect(pool.memoryLimit).toBe(inner.memoryLimit);
    expect(String(pool)).toBe(String(inner));
    expect(pool.consumers).toBe(inner.consumers);
    expect(
      new RealUsagePool(new UnboundedMemoryPool(), { limit: 1, readings: p }).memoryLimit,
    ).toEqual({ kind: 'infinite' });
  });

  it.each<[Record<string, unknown>]>([
    [{ limit: 0 }],
    [{ limit: '70%' }],
    [{ heapRatio: 0 }],
    [{ heapRatio: 1.1 }],
    [{ heapRatio: '0.8' }],
    [{ pendingMs: 0 }],
    [{ pendingMs: Number.NaN }],
    [{ containerMargin: 'much' }],
    [{ containerMargin: -1 }],
    [{ containerMaxAgeMs: -1 }],
  ])('refuses %o', (bad) => {
    expect(() => makePool(bad as Partial<RealUsagePoolOptions>)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_/) }),
    );
  });
});

describe('pending grants', () => {
  it('keep two callers from getting in on the same reading', () => {
    const pool = makePool();
    const [a, b] = [reserve(pool, 'a'), reserve(pool, 'b')];
    expect([a.tryGrow(600), b.tryGrow(600)]).toEqual([true, false]);
    expect([a.size, b.size, pool.pending]).toEqual([600, 0, 600]);
  });

  it('are not retired by growth of somebody else', () => {
    const pool = makePool();
    reserve(pool, 'a').tryGrow(300);
    p.liveBytes = 300;
    expect(reserve(pool, 'b').tryGrow(401)).toBe(false);
    expect(reserve(pool, 'b').tryGrow(400)).toBe(true);
  });

  it('stop counting after a while, not before', () => {
    const pool = makePool({ pendingMs: 800 });
    p.now = 5050;
    reserve(pool).tryGrow(1000);
    p.now = 5849;
    expect(pool.pending).toBe(1000);
    p.now = 5950;
    expect(pool.pending).toBe(0);
    p.now = 1_000_000;
    expect(pool.pending).toBe(0);
  });

  it('age one by one', () => {
    const pool = makePool({ pendingMs: 800 });
    const r = reserve(pool);
    for (let i = 0; i < 10; i++) {
      p.now = i * 100;
      expect(r.tryGrow(1)).toBe(true);
    }
    expect(pool.pending).toBe(9);
    p.now = 1000;
    expect(pool.pending).toBe(8);
  });

  it('stop counting when their consumer has allocated, and only its own', () => {
    const pool = makePool();
    const [a, b] = [reserve(pool, 'a'), reserve(pool, 'b')];
    a.tryGrow(300);
    b.tryGrow(300);
    a.allocated(100);
    expect(pool.pending).toBe(500);
    a.allocated(100_000);
    expect(pool.pending).toBe(300);
    b.close();
    expect(pool.pending).toBe(0);
  });

  it('stop counting when they are given back, however often', () => {
    const pool = makePool();
    const r = reserve(pool);
    for (let i = 0; i < 1000; i++) {
      p.now += 1;
      expect(r.tryGrow(900)).toBe(true);
      r.shrink(900);
    }
    expect(pool.pending).toBe(0);
  });

  it('retire the right moments: oldest when allocated, newest when given back', () => {
    const pool = makePool({ pendingMs: 800 });
    const r = reserve(pool);
    r.tryGrow(10);
    p.now = 400;
    r.tryGrow(20);
    r.shrink(20);
    p.now = 900;
    expect(pool.pending).toBe(0);
    r.tryGrow(10);
    p.now = 1300;
    r.tryGrow(20);
    r.allocated(10);
    p.now = 1800;
    expect(pool.pending).toBe(20);
  });

  it('are counted for overcommit too', () => {
    const pool = makePool();
    const r = reserve(pool);
    r.overcommit(900);
    expect([r.tryGrow(101), r.tryGrow(100)]).toEqual([false, true]);
  });

  it('leave out what is allocated already', () => {
    p.liveBytes = 1000;
    const pool = makePool();
    const r = reserve(pool);
    expect(r.tryGrow(500, { alreadyAllocated: 499 })).toBe(false);
    expect(r.tryGrow(500, { alreadyAllocated: 500 })).toBe(true);
    expect(pool.pending).toBe(0);
    p.liveBytes = 1001;
    expect(r.tryGrow(500, { alreadyAllocated: 500 })).toBe(false);
  });

  it('make grow wait, and nobody spill, while they alone are in the way', async () => {
    const pool = makePool();
    let spills = 0;
    const a = reserve(pool, 'a', { spill: () => void spills++ });
    await a.grow(600);
    p.liveBytes = 600;
    const b = reserve(pool, 'b');
    await b.grow(400);
    expect(b.size).toBe(400);
    expect(spills).toBe(0);
    expect(p.now).toBeGreaterThanOrEqual(1000);
    expect(p.now).toBeLessThan(1300);
  });

  it('of two racing grows let one in for good', async () => {
    const pool = makePool();
    const [a, b] = [reserve(pool, 'a'), reserve(pool, 'b')];
    const first = a.grow(600).then(() => {
      p.liveBytes = 600;
    });
    const error = await rejection(b.grow(600));
    await first;
    expect(error).toMatchObject({ source: 'usage', requested: 600, live: 600 });
    expect([a.size, b.size]).toEqual([600, 0]);
  });
});

describe('the V8 heap', () => {
  it('has a ceiling of its own for consumers in it', () => {
    p.heapUsed = 790;
    const pool = makePool({ limit: 100_000 });
    const r = reserve(pool, 'rows', { in: 'heap' });
    expect(r.tryGrow(10, { alreadyAllocated: 0 })).toBe(true);
    expect(r.tryGrow(1, { alreadyAllocated: 0 })).toBe(false);
    expect(reserve(pool, 'native').tryGrow(500)).toBe(true);
  });

  it('holds rows already when they are reserved, unless told otherwise', () => {
    const pool = makePool({ limit: 100_000 });
    const r = reserve(pool, 'rows', { in: 'heap' });
    p.heapUsed = 800;
    expect(r.tryGrow(500)).toBe(true);
    expect(pool.pending).toBe(0);
    p.heapUsed = 801;
    expect(r.tryGrow(1)).toBe(false);
  });

  it('takes a ratio', () => {
    p.heapUsed = 500;
    const r = reserve(makePool({ limit: 100_000, heapRatio: 0.5 }), 'rows', { in: 'heap' });
    expect(r.tryGrow(1)).toBe(true);
    p.heapUsed = 501;
    expect(r.tryGrow(1)).toBe(false);
  });

  it('is named in the error, after a look whether it is garbage', async () => {
    p.heapUsed = 900;
    const r = reserve(makePool({ limit: 100_000 }), 'rows', { in: 'heap' });
    const error = await rejection(r.grow(10));
    expect(error).toMatchObject({ source: 'heap', limit: 800, measured: 900, available: 0 });
    expect(reclaimer.calls).toEqual(['garbage:skip']);
    reclaimer.onGarbage = () => {
      p.heapUsed = 100;
    };
    await r.grow(10);
    expect(r.size).toBe(10);
  });
});

describe("the container's headroom", () => {
  const unlimited = { limit: 100_000 * MIB, containerMargin: 100 };

  it('is held to exactly', () => {
    p.setContainer(1000, 500);
    const r = reserve(makePool(unlimited));
    expect([r.tryGrow(401), r.tryGrow(400)]).toEqual([false, true]);
    expect(r.tryGrow(1)).toBe(false);
  });

  it('reads again before it says no, and not before every yes', () => {
    p.setContainer(1_000_000, 0);
    const r = reserve(makePool(unlimited));
    for (let i = 0; i < 100; i++) {
      expect(r.tryGrow(1)).toBe(true);
    }
    expect(p.containerReads).toBe(1);
    p.now += 11;
    r.tryGrow(1);
    expect(p.containerReads).toBe(2);
    // Too much by the old reading, enough by a new one.
    p.setContainer(2_000_000, 0);
    expect(r.tryGrow(1_000_000)).toBe(false);
    inner = new GreedyMemoryPool(10_000_000);
    const fresh = reserve(makePool(unlimited));
    expect(fresh.tryGrow(1_000_000)).toBe(true);
  });

  it('does not take an old reading for bytes that it cannot have seen', () => {
    p.setContainer(1000, 0);
    const r = reserve(makePool(unlimited));
    expect(r.tryGrow(800, { alreadyAllocated: 800 })).toBe(true);
    p.setContainer(1000, 800);
    expect(r.tryGrow(200)).toBe(false);
    expect(r.tryGrow(100)).toBe(true);
  });

  it('needs a container with a limit, and can be switched off', () => {
    const r = reserve(makePool(unlimited));
    expect(r.tryGrow(1)).toBe(true);
    p.setContainer(undefined, 5000);
    p.now += 100;
    expect(r.tryGrow(1)).toBe(true);
    p.setContainer(1000, 5000);
    p.now += 100;
    expect(r.tryGrow(1)).toBe(false);
    expect(reserve(makePool({ ...unlimited, containerCheck: false })).tryGrow(1)).toBe(true);
  });

  it.each([
    [undefined, 500 * MIB, 450 * MIB],
    [undefined, 100 * MIB, 84 * MIB],
    [undefined, 16 * MIB, 8 * MIB],
    [undefined, 10_240 * MIB, 9984 * MIB],
    ['20%', 500 * MIB, 400 * MIB],
    ['50MiB', 500 * MIB, 450 * MIB],
    [0, 500 * MIB, 500 * MIB],
  ])('keeps a margin of %s under a limit of %d', (containerMargin, limit, room) => {
    p.setContainer(limit, 0);
    inner = new GreedyMemoryPool('1TiB');
    const pool = makePool({ limit: '1TiB', containerMargin });
    expect([reserve(pool).tryGrow(room + 1), reserve(pool).tryGrow(room)]).toEqual([false, true]);
  });

  it('has slack given back first: nobody spills, and nothing latches', async () => {
    p.setContainer(1000, 850);
    let spills = 0;
    const r = reserve(makePool(unlimited), 'c', { spill: () => void spills++ });
    r.tryGrow(10);
    expect(r.tryGrow(100)).toBe(false);
    expect(reclaimer.calls).toEqual([]);
    reclaimer.onSlack = () => p.setContainer(1000, 100);
    await r.grow(100);
    expect(reclaimer.calls).toEqual(['slack:skip']);
    expect([r.size, spills]).toEqual([110, 0]);
  });

  it('does not have slack given back where that cannot be enough', async () => {
    p.setContainer(1000, 1000);
    p.rssAnon = 50;
    const error = await rejection(reserve(makePool(unlimited)).grow(100));
    expect(reclaimer.calls.filter((call) => call.startsWith('slack'))).toEqual([]);
    expect(error).toMatchObject({ source: 'container', limit: 900, measured: 1000 });
  });
});

describe('the order in which grow makes room', () => {
  const spiller = (pool: RealUsagePool, log: string[], frees: () => void) => {
    const r: MemoryReservation = reserve(pool, 'spiller', {
      spill: () => {
        log.push('spill');
        r.free();
        frees();
      },
    });
    r.tryGrow(100);
    r.allocated(100);
    return r;
  };

  it('is garbage, then a spill and its garbage, then the error', async () => {
    const pool = makePool();
    const log = reclaimer.calls;
    spiller(pool, log, () => {});
    p.liveBytes = 1000;
    const error = (await rejection(reserve(pool, 'asking').grow(10))) as ResourcesExhaustedError;
    expect(log).toEqual(['garbage:skip', 'spill', 'garbage:run']);
    expect(error).toMatchObject({
      source: 'usage',
      limit: 1000,
      live: 1000,
      reserved: 0,
      requested: 10,
      available: 0,
    });
    expect(error.consumer).toMatch(/^asking#\d+$/);
  });

  it('sees what a spill let go once it is collected', async () => {
    const pool = makePool();
    spiller(pool, reclaimer.calls, () => {
      reclaimer.onGarbage = () => {
        p.liveBytes = 0;
      };
    });
    p.liveBytes = 1000;
    const asking = reserve(pool, 'asking');
    await asking.grow(10);
    expect(reclaimer.calls).toEqual(['garbage:skip', 'spill', 'garbage:run']);
    expect(asking.size).toBe(10);
  });

  it('spills nothing when garbage was enough', async () => {
    const pool = makePool();
    spiller(pool, reclaimer.calls, () => {});
    p.liveBytes = 1000;
    reclaimer.onGarbage = () => {
      p.liveBytes = 0;
    };
    await reserve(pool, 'asking').grow(10);
    expect(reclaimer.calls).toEqual(['garbage:skip']);
  });

  it('goes from slack to garbage to the slack that garbage has become', async () => {
    p.setContainer(1000, 950);
    const pool = makePool({ limit: 1e6, containerMargin: 100 });
    reclaimer.onGarbage = () => {
      reclaimer.onSlack = () => p.setContainer(1000, 100);
    };
    await reserve(pool).grow(10);
    expect(reclaimer.calls).toEqual(['slack:skip', 'garbage:skip', 'slack:run']);
  });

  it.each(['slack', 'garbage'] as const)(
    'waits for %s that a rate limit had put off',
    async (kind) => {
      reclaimer.suppress = kind;
      if (kind === 'slack') {
        p.setContainer(1000, 950);
        reclaimer.onSlack = () => p.setContainer(1000, 100);
        // A collection would be followed by a release of slack at once.
        const pool = makePool({ limit: 1e6, containerMargin: 100 });
        const run = reclaimer.collectGarbage.bind(reclaimer);
        reclaimer.collectGarbage = async (options) => ({
          ...(await run(options)),
          suppressed: options?.whenLimited === 'skip',
        });
        await reserve(pool).grow(10);
      } else {
        p.liveBytes = 1000;
        reclaimer.onGarbage = () => {
          p.liveBytes = 0;
        };
        await reserve(makePool()).grow(10);
      }
      expect(reclaimer.calls.at(-1)).toBe(kind === 'slack' ? 'slack:run' : 'garbage:wait');
    },
  );

  it('reclaims nothing when the inner pool said no', async () => {
    inner = new GreedyMemoryPool(100);
    const error = await rejection(
      (async () => {
        const pool = makePool();
        reserve(pool, 'holder').tryGrow(90);
        await reserve(pool).grow(20);
      })(),
    );
    expect(error).toMatchObject({ source: 'pool', limit: 100, measured: 90, live: 0 });
    expect(reclaimer.calls).toEqual([]);
  });

  it('does nothing at all for a request over the whole limit', async () => {
    const pool = makePool();
    spiller(pool, reclaimer.calls, () => {});
    expect(await rejection(reserve(pool).grow(1001))).toMatchObject({ source: 'usage' });
    expect(reclaimer.calls).toEqual([]);
  });

  it('spills at once without a reclaimer', async () => {
    const pool = makePool({ reclaimer: undefined });
    const log: string[] = [];
    spiller(pool, log, () => {
      p.liveBytes = 0;
    });
    p.liveBytes = 1000;
    await reserve(pool).grow(10);
    expect(log).toEqual(['spill']);
  });
});

describe('tryGrow', () => {
  it('leaves the heap where it was after a million calls', () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    p.setContainer(10_000_000, 0);
    const pool = makePool({ limit: 10_000_000 });
    const r = reserve(pool);
    const work = (calls: number): number => {
      let granted = 0;
      for (let i = 0; i < calls; i++) {
        p.now += 0.001;
        if (r.tryGrow(64)) {
          granted += 1;
          r.shrink(64);
        }
        r.tryGrow(20_000_000);
      }
      return granted;
    };
    work(20_000);
    gc();
    const before = process.memoryUsage().heapUsed;
    expect(work(500_000)).toBe(500_000);
    gc();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(256 * 1024);
  });
});
