/** Random sequences of every operation on every pool and wrapper, against what must always hold. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ResourcesExhaustedError } from '../../lib/errors';
import { ObservingPool } from '../../lib/guard/observing-pool';
import {
  FairSpillPool,
  GreedyMemoryPool,
  MemoryConsumer,
  type MemoryPool,
  type MemoryReservation,
  RealUsagePool,
  TrackConsumersPool,
  UnboundedMemoryPool,
} from '../../lib/pool';
import { FakeProcess } from './fakes';

const CAP = 1000;
const EXEMPTION = 40;

interface World {
  readonly pool: MemoryPool;
  readonly p: FakeProcess;
  /** Whether `tryGrow` and `grow` keep the total at or under the cap. */
  readonly capped: boolean;
  readonly reservations: MemoryReservation[];
}

const pools: Record<string, (p: FakeProcess) => Omit<World, 'reservations' | 'p'>> = {
  Unbounded: () => ({ pool: new UnboundedMemoryPool(), capped: false }),
  Greedy: () => ({
    pool: new GreedyMemoryPool(CAP, { spillExemption: EXEMPTION }),
    capped: true,
  }),
  FairSpill: () => ({ pool: new FairSpillPool(CAP), capped: true }),
  'TrackConsumers(Greedy)': () => ({
    pool: new TrackConsumersPool(new GreedyMemoryPool(CAP)),
    capped: true,
  }),
  'RealUsage(FairSpill)': (p) => ({ pool: real(p, new FairSpillPool(CAP)), capped: true }),
  'RealUsage(Unbounded)': (p) => ({ pool: real(p, new UnboundedMemoryPool()), capped: false }),
  'TrackConsumers(RealUsage(Greedy))': (p) => ({
    pool: new TrackConsumersPool(real(p, new GreedyMemoryPool(CAP))),
    capped: true,
  }),
  'RealUsage(TrackConsumers(FairSpill))': (p) => ({
    pool: real(p, new TrackConsumersPool(new FairSpillPool(CAP))),
    capped: true,
  }),
  'Observing(RealUsage(Greedy))': (p) => ({
    pool: new ObservingPool(real(p, new GreedyMemoryPool(CAP))),
    capped: false,
  }),
};

function real(p: FakeProcess, inner: MemoryPool): RealUsagePool {
  return new RealUsagePool(inner, {
    limit: 2 * CAP,
    readings: p,
    clock: p.clock,
    delay: p.delay,
    pendingMs: 80,
    unspillableReserve: 100,
    spillExemption: EXEMPTION,
    containerMargin: 0,
  });
}

type Kind = 'plain' | 'heap' | 'spills' | 'throws' | 'buffers';

const KINDS: readonly Kind[] = ['plain', 'heap', 'spills', 'throws', 'buffers'];

function open(world: World, kind: Kind): void {
  const held = (): MemoryReservation[] =>
    world.reservations.filter((each) => each.consumer === consumer && !each.closed);
  const spill = {
    spills: () => void held().forEach((each) => void each.free()),
    throws: () => {
      throw new Error('disk full');
    },
    buffers: async () => {
      const [first] = held();
      const buffer = first?.newEmpty();
      buffer?.tryGrow(EXEMPTION / 2);
      await null;
      buffer?.close();
      first?.shrink(Math.ceil(first.size / 2));
    },
  }[kind as string];
  const consumer = new MemoryConsumer(kind, { spill, in: kind === 'heap' ? 'heap' : 'native' });
  world.reservations.push(consumer.register(world.pool));
}

type Step = (world: World) => Promise<void> | void;

/** Runs `step` on one of the open reservations. */
function on(index: number, step: (r: MemoryReservation, world: World) => Promise<void> | void) {
  return (world: World) => {
    const openOnes = world.reservations.filter(({ closed }) => !closed);
    const r = openOnes[index % Math.max(1, openOnes.length)];
    return r === undefined ? undefined : step(r, world);
  };
}

/** What a refusal must not change. */
const state = ({ pool, reservations }: World): unknown => [
  pool.reserved,
  reservations.map(({ size, overcommitted }) => [size, overcommitted]),
];

async function refusalChangesNothing(
  world: World,
  r: MemoryReservation,
  grows: () => boolean,
): Promise<void> {
  const before = state(world);
  const { size } = r;
  if (grows()) {
    expect(r.size).toBeGreaterThanOrEqual(size);
    return;
  }
  expect(state(world)).toEqual(before);
}

const bytes = fc.oneof(fc.nat(CAP / 2), fc.nat(2 * CAP), fc.constantFrom(0, 1, CAP, CAP + 1));
const which = fc.nat(20);
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.constantFrom(...KINDS).map((kind) => (world: World) => open(world, kind)),
  fc
    .tuple(which, bytes, fc.boolean())
    .map(([i, n, exists]) =>
      on(i, (r, world) =>
        refusalChangesNothing(world, r, () =>
          r.tryGrow(n, exists ? { alreadyAllocated: n } : undefined),
        ),
      ),
    ),
  fc.tuple(which, bytes).map(([i, n]) =>
    on(i, async (r) => {
      const { size } = r;
      try {
        await r.grow(n);
      } catch (error) {
        expect(error).toBeInstanceOf(ResourcesExhaustedError);
        // It may have been made to spill for itself; it has not grown.
        expect(r.size).toBeLessThanOrEqual(size);
      }
    }),
  ),
  fc.tuple(which, bytes, which, bytes).map(([i, n, j, m]) => async (world: World) => {
    const both = [on(i, (r) => r.grow(n))(world), on(j, (r) => r.grow(m))(world)];
    await Promise.allSettled(both);
  }),
  fc.tuple(which, bytes).map(([i, n]) => on(i, (r) => r.overcommit(n % 100))),
  fc.tuple(which, bytes).map(([i, n]) =>
    on(i, (r, world) => {
      const { size } = r;
      if (n <= size) {
        r.shrink(n);
        expect(r.size).toBe(size - n);
      } else {
        const before = state(world);
        expect(() => r.shrink(n)).toThrow(RangeError);
        expect(r.tryShrink(n)).toBe(false);
        expect(state(world)).toEqual(before);
      }
    }),
  ),
  fc
    .tuple(which, bytes)
    .map(([i, n]) =>
      on(i, (r, world) =>
        n <= r.size
          ? void expect([r.tryResize(n), r.size]).toEqual([true, n])
          : refusalChangesNothing(world, r, () => r.tryResize(n)),
      ),
    ),
  fc.tuple(which, bytes).map(([i, n]) => on(i, (r) => r.resize(n).catch(() => {}))),
  fc.tuple(which, bytes).map(([i, n]) =>
    on(i, (r, { pool, reservations }) => {
      const before = pool.reserved;
      reservations.push(r.split(Math.min(n, r.size)));
      expect(pool.reserved).toBe(before);
    }),
  ),
  which.map((i) => on(i, (r, { reservations }) => void reservations.push(r.take()))),
  which.map((i) => on(i, (r, { reservations }) => void reservations.push(r.newEmpty()))),
  which.map((i) => on(i, (r) => void r.free())),
  which.map((i) => on(i, (r) => r.close())),
  fc.tuple(which, bytes).map(([i, n]) => on(i, (r) => r.allocated(n))),
  bytes.map((n) => ({ p }: World) => {
    p.liveBytes = n;
  }),
  bytes.map((n) => ({ p }: World) => {
    p.heapUsed = n % p.heapLimit;
  }),
  bytes.map(
    (n) =>
      ({ p }: World) =>
        p.setContainer(n % 2 === 0 ? 3 * CAP : undefined, n),
  ),
  fc.nat(200).map((ms) => ({ p }: World) => {
    p.now += ms;
  }),
);

function check({ pool, p, capped, reservations }: World): void {
  let [total, overcommitted] = [0, 0];
  for (const r of reservations) {
    expect(r.size).toBeGreaterThanOrEqual(0);
    expect(r.overcommitted).toBeGreaterThanOrEqual(0);
    expect(r.overcommitted).toBeLessThanOrEqual(r.size);
    total += r.size;
    overcommitted += r.overcommitted;
  }
  expect(pool.reserved).toBe(total);
  expect(pool.totalReserved).toBe(total);
  if (capped) {
    expect(total - overcommitted).toBeLessThanOrEqual(CAP);
  }
  const consumers = pool.consumers.all();
  expect(consumers.reduce((sum, { reserved }) => sum + reserved, 0)).toBe(total);
  expect(consumers.reduce((sum, each) => sum + each.overcommitted, 0)).toBe(overcommitted);
  expect(consumers.every(({ reserved, peak }) => peak >= reserved)).toBe(true);
  const open = new Set(reservations.filter(({ closed }) => !closed).map((r) => r.consumer));
  expect(consumers.length).toBe(open.size);
  if (pool instanceof RealUsagePool) {
    expect(pool.pending).toBeGreaterThanOrEqual(0);
    // What was let in fits beside what was there, or has been given back since.
    expect(pool.pending).toBeLessThanOrEqual(total);
  }
  expect(p.now).toBeGreaterThanOrEqual(0);
}

describe.each(Object.entries(pools))('%s', (_name, make) => {
  it('keeps its books whatever is done with it, and ends at zero', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 1, maxLength: 60 }), async (sequence) => {
        const p = new FakeProcess();
        const world: World = { ...make(p), p, reservations: [] };
        for (const kind of KINDS) {
          open(world, kind);
        }
        for (const step of sequence) {
          await step(world);
          check(world);
        }
        for (const r of world.reservations) {
          r.close();
        }
        check(world);
        expect([world.pool.reserved, world.pool.totalReserved]).toEqual([0, 0]);
        expect([world.pool.consumers.size, world.pool.mustQueue()]).toEqual([0, false]);
        expect(world.pool instanceof RealUsagePool ? world.pool.pending : 0).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});
