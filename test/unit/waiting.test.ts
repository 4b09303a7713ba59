/** Callers of `grow` that wait: order, signals, deadlines; and what a spill callback may do. */
import { describe, expect, it } from 'vitest';
import { ResourcesExhaustedError } from '../../lib/errors';
import {
  type Delay,
  GreedyMemoryPool,
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryPool,
  type MemoryReservation,
  RealUsagePool,
  type SpillReport,
} from '../../lib/pool';
import { FakeProcess, rejection } from './fakes';

function reserve(pool: MemoryPool, name = 'c', options?: MemoryConsumerOptions): MemoryReservation {
  return new MemoryConsumer(name, options).register(pool);
}

/** A gate that a spill callback waits at. */
function gate() {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

/** Timers that fire when they are told to. */
class FakeTimers {
  now = 0;
  readonly #due: { at: number; fire: () => void }[] = [];
  readonly clock = (): number => this.now;
  readonly delay: Delay = (ms, options) =>
    new Promise<void>((resolve, reject) => {
      const timer = { at: this.now + ms, fire: resolve };
      this.#due.push(timer);
      options?.signal?.addEventListener('abort', () => {
        this.#due.splice(this.#due.indexOf(timer), 1);
        reject(options.signal?.reason);
      });
    });

  get running(): number {
    return this.#due.length;
  }

  /** Fires what is due, earliest first, and lets it take effect. */
  async advance(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      await settled();
      const next = this.#due.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) {
        this.now = end;
        return;
      }
      this.now = Math.max(this.now, next.at);
      this.#due.splice(this.#due.indexOf(next), 1);
      next.fire();
    }
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A full pool of 100 whose only holder gives back what it is asked for, after the gate. */
function fullPool(timers = new FakeTimers()) {
  const pool = new GreedyMemoryPool(100, { clock: timers.clock, delay: timers.delay });
  const { open, passed } = gate();
  const holder: MemoryReservation = reserve(pool, 'holder', {
    spill: async (bytes) => {
      await passed;
      holder.shrink(Math.min(bytes, holder.size));
    },
  });
  holder.tryGrow(100);
  return { pool, holder, open, timers };
}

describe('a signal', () => {
  it('that has aborted already ends it before it begins', async () => {
    const { pool, holder } = fullPool();
    const reason = new Error('not any more');
    const signal = AbortSignal.abort(reason);
    expect(await rejection(reserve(pool).grow(0, { signal }))).toBe(reason);
    expect(await rejection(reserve(pool).grow(10, { signal }))).toBe(reason);
    expect(holder.size).toBe(100);
  });

  it('takes one out of the line, granted nothing, and the next is served', async () => {
    const { pool, open } = fullPool();
    const controller = new AbortController();
    const [first, second, third] = ['first', 'second', 'third'].map((name) => reserve(pool, name));
    const refused = rejection(first?.grow(10, { signal: controller.signal }) as Promise<void>);
    const waits = rejection(second?.grow(10, { signal: controller.signal }) as Promise<void>);
    const granted = third?.grow(20);
    await settled();
    controller.abort();
    // At once, although the callback still runs.
    expect([await refused, await waits]).toMatchObject([
      { name: 'AbortError' },
      { name: 'AbortError' },
    ]);
    open();
    await granted;
    expect([first?.size, second?.size, third?.size]).toEqual([0, 0, 20]);
  });

  it('that aborts when the bytes are granted is too late', async () => {
    const { pool, open } = fullPool();
    const controller = new AbortController();
    const r = reserve(pool);
    const granted = r.grow(10, { signal: controller.signal });
    await settled();
    open();
    await granted;
    controller.abort();
    expect(r.size).toBe(10);
  });

  it('of one that aborted keeps nobody from growing meanwhile', async () => {
    const { pool, holder } = fullPool();
    const controller = new AbortController();
    const refused = rejection(reserve(pool).grow(10, { signal: controller.signal }));
    await settled();
    holder.shrink(50);
    const other = reserve(pool, 'other');
    expect(other.tryGrow(5)).toBe(false);
    controller.abort();
    await refused;
    expect(other.tryGrow(5)).toBe(true);
  });
});

describe('a deadline', () => {
  it('ends the waiting for others who spill, with the numbers', async () => {
    const { pool, timers, open } = fullPool();
    const r = reserve(pool, 'hasty');
    const error = rejection(r.grow(10, { deadlineMs: 50 }));
    await timers.advance(49);
    expect(pool.mustQueue()).toBe(true);
    await timers.advance(1);
    expect(await error).toMatchObject({
      source: 'pool',
      requested: 10,
      limit: 100,
      measured: 100,
      consumer: expect.stringMatching(/^hasty#/),
    });
    open();
    await settled();
    expect([r.size, pool.mustQueue(), timers.running]).toEqual([0, false, 0]);
  });

  it('passes for those behind in the line too', async () => {
    const { pool, timers, open } = fullPool();
    const first = reserve(pool, 'first').grow(10);
    const second = rejection(reserve(pool, 'second').grow(10, { deadlineMs: 20 }));
    await timers.advance(20);
    expect(await second).toBeInstanceOf(ResourcesExhaustedError);
    open();
    await first;
  });

  it('lets it wait for what nobody can be made to give back', async () => {
    const timers = new FakeTimers();
    const pool = new GreedyMemoryPool(100, { clock: timers.clock, delay: timers.delay });
    const stiff = reserve(pool, 'stiff');
    stiff.tryGrow(100);
    const r = reserve(pool);
    const granted = r.grow(60, { deadlineMs: 1000 });
    await timers.advance(300);
    stiff.shrink(30);
    await timers.advance(300);
    expect([r.size, pool.reserved]).toEqual([0, 70]);
    stiff.shrink(30);
    await granted;
    expect([r.size, pool.reserved, timers.running]).toEqual([60, 100, 0]);
  });

  it('lets it see usage that falls by itself', async () => {
    const timers = new FakeTimers();
    const p = new FakeProcess();
    p.liveBytes = 1000;
    const { clock, delay } = timers;
    const inner = new GreedyMemoryPool(10_000);
    const pool = new RealUsagePool(inner, { limit: 1000, readings: p, clock, delay });
    const r = reserve(pool);
    const granted = r.grow(100, { deadlineMs: 1000 });
    await timers.advance(100);
    expect(r.size).toBe(0);
    p.liveBytes = 900;
    await timers.advance(25);
    await granted;
    expect(r.size).toBe(100);
  });

  it('is not needed to fail: without one the answer is no once nothing is left to spill', async () => {
    const pool = new GreedyMemoryPool(100);
    reserve(pool, 'stiff').tryGrow(100);
    expect(await rejection(reserve(pool).grow(1))).toBeInstanceOf(ResourcesExhaustedError);
  });

  it('of one that was granted leaves no timer behind', async () => {
    const { pool, timers, open } = fullPool();
    open();
    await reserve(pool).grow(10, { deadlineMs: 1000 });
    await settled();
    expect(timers.running).toBe(0);
  });
});

describe('tryGrow while somebody waits', () => {
  it('does not take what is made for them, however small', async () => {
    const pool = new GreedyMemoryPool(100);
    const small = reserve(pool, 'small');
    const taken: boolean[] = [];
    const { open, passed } = gate();
    const holder: MemoryReservation = reserve(pool, 'holder', {
      spill: async () => {
        while (holder.size > 0) {
          holder.shrink(10);
          await settled();
        }
        await passed;
      },
    });
    holder.tryGrow(100);
    const large = reserve(pool, 'large');
    const granted = large.grow(100);
    for (let i = 0; i < 20; i++) {
      await settled();
      taken.push(small.tryGrow(1));
    }
    open();
    await granted;
    expect(taken).not.toContain(true);
    expect([large.size, small.size, small.tryGrow(0)]).toEqual([100, 0, true]);
    large.free();
    expect(small.tryGrow(1)).toBe(true);
  });

  it('is not held up by those who wait for the V8 heap, in native memory', async () => {
    const p = new FakeProcess();
    p.heapUsed = 800;
    const pool = new RealUsagePool(new GreedyMemoryPool(10_000), { limit: 10_000, readings: p });
    const { open, passed } = gate();
    const rows = reserve(pool, 'rows', { in: 'heap', spill: () => passed });
    rows.tryGrow(100);
    let nativeSpills = 0;
    reserve(pool, 'buffers', { spill: () => void nativeSpills++ }).tryGrow(500);
    p.heapUsed = 900;
    const waits = rejection(reserve(pool, 'more', { in: 'heap' }).grow(10));
    await settled();
    expect(reserve(pool, 'native').tryGrow(10)).toBe(true);
    expect(reserve(pool, 'heap', { in: 'heap' }).tryGrow(10)).toBe(false);
    open();
    expect(await waits).toMatchObject({ source: 'heap' });
    // It could not have helped.
    expect(nativeSpills).toBe(0);
  });
});

describe('the exemption of a spill callback', () => {
  function setup(spill: (r: MemoryReservation, pool: MemoryPool) => void | Promise<void>) {
    const p = new FakeProcess();
    const reports: SpillReport[] = [];
    const pool = new RealUsagePool(new GreedyMemoryPool(1000), {
      limit: 1000,
      readings: p,
      clock: p.clock,
      delay: p.delay,
      spillExemption: 50,
      observer: { refused: () => {}, spilled: (report) => void reports.push(report) },
    });
    const r: MemoryReservation = reserve(pool, 'spiller', { spill: () => spill(r, pool) });
    r.tryGrow(1000);
    return { pool, r, reports };
  }

  it('lets it grow past the limit, up to its size, and is given back', async () => {
    const seen: unknown[] = [];
    const { pool, r, reports } = setup(async (own, all) => {
      const buffer = own.newEmpty();
      seen.push(own.tryGrow(51), buffer.tryGrow(30), own.tryGrow(20), own.tryGrow(1));
      await settled();
      seen.push(all.reserved);
      buffer.close();
      seen.push(own.tryGrow(31), own.tryGrow(30));
      own.shrink(1050);
      // Charged on success only: what was refused did not use it up.
      seen.push(own.tryGrow(1000));
      own.shrink(1000);
    });
    const asking = reserve(pool, 'asking');
    await asking.grow(100);
    expect(seen).toEqual([false, true, true, false, 1050, false, true, true]);
    expect([r.size, r.overcommitted, pool.reserved]).toEqual([0, 0, 100]);
    expect(reports).toMatchObject([{ freed: 1000, kept: 0, recursed: false }]);
  });

  it('is for its own consumer, and over when the callback is', async () => {
    const seen: boolean[] = [];
    const late = gate();
    let leftBehind: Promise<void> | undefined;
    const { pool, r } = setup((own, all) => {
      seen.push(reserve(all, 'other').tryGrow(10));
      leftBehind = late.passed.then(() => void seen.push(own.tryGrow(10)));
      own.shrink(10);
    });
    expect(r.tryGrow(10)).toBe(false);
    await reserve(pool, 'asking').grow(10);
    late.open();
    await leftBehind;
    expect(seen).toEqual([false, false]);
  });

  it('that is kept is named, still charged, and not to be had again', async () => {
    const seen: boolean[] = [];
    const { pool, r, reports } = setup((own) => void seen.push(own.tryGrow(40)));
    for (let i = 0; i < 2; i++) {
      const error = (await rejection(reserve(pool, 'asking').grow(10))) as ResourcesExhaustedError;
      expect(error.spillFailures).toEqual([
        expect.stringMatching(
          /^spiller#\d+ freed nothing, kept 40 B of what it may hold only while it spills$/,
        ),
      ]);
    }
    expect(seen).toEqual([true, false]);
    expect([r.size, r.overcommitted]).toEqual([1040, 40]);
    expect(reports).toMatchObject([{ kept: 40 }, { kept: 40 }]);
    r.free();
    expect(pool.reserved).toBe(0);
  });

  it('does not nest: a callback that asks its own consumer to spill is refused and named', async () => {
    let calls = 0;
    const { pool } = setup(async (own) => {
      calls += 1;
      await own.grow(60).catch(() => {});
    });
    const error = (await rejection(reserve(pool, 'asking').grow(10))) as ResourcesExhaustedError;
    expect(calls).toBe(1);
    expect(error.spillFailures).toEqual([
      expect.stringMatching(
        /^spiller#\d+ freed nothing, asked for room while it was to make some$/,
      ),
    ]);
  });

  it('can be switched off, and is off in plain pools', async () => {
    const seen: boolean[] = [];
    const readings = new FakeProcess();
    for (const pool of [
      new RealUsagePool(new GreedyMemoryPool(100), { limit: 100, readings, spillExemption: 0 }),
      new GreedyMemoryPool(100),
    ]) {
      const r: MemoryReservation = reserve(pool, 'spiller', {
        spill: () => {
          seen.push(r.tryGrow(1));
          r.free();
        },
      });
      r.tryGrow(100);
      await reserve(pool).grow(10);
    }
    expect(seen).toEqual([false, false]);
  });

  it.each([[-1], ['lots'], [Number.NaN]])('of %s is refused', (spillExemption) => {
    const error = expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_SIZE' });
    expect(() => new GreedyMemoryPool(1, { spillExemption })).toThrow(error);
  });
});

describe('the reserve for consumers that cannot spill', () => {
  function setup() {
    const p = new FakeProcess();
    const pool = new RealUsagePool(new GreedyMemoryPool(10_000), {
      limit: 1000,
      readings: p,
      clock: p.clock,
      unspillableReserve: 300,
    });
    return { p, pool };
  }

  it('is left alone by those that can, until it is used', () => {
    const { pool } = setup();
    const [can, cannot] = [reserve(pool, 'can', { canSpill: true }), reserve(pool, 'cannot')];
    expect([can.tryGrow(701), can.tryGrow(700), can.tryGrow(1)]).toEqual([false, true, false]);
    expect([cannot.tryGrow(301), cannot.tryGrow(200)]).toEqual([false, true]);
    can.shrink(100);
    expect([can.tryGrow(101), can.tryGrow(100)]).toEqual([false, true]);
    cannot.free();
    expect(cannot.tryGrow(300)).toBe(true);
  });

  it('is told of in the refusal', async () => {
    const { p, pool } = setup();
    p.liveBytes = 600;
    const can = reserve(pool, 'can', { canSpill: true });
    expect(await rejection(can.grow(200))).toMatchObject({
      source: 'usage',
      limit: 700,
      measured: 600,
      available: 100,
    });
  });

  it.each([[-1], ['lots'], ['5%']])('of %s is refused', (unspillableReserve) => {
    const readings = new FakeProcess();
    const inner = new GreedyMemoryPool(1);
    expect(() => new RealUsagePool(inner, { limit: 1, readings, unspillableReserve })).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_SIZE' }),
    );
  });
});
