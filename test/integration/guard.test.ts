/** The guard over real memory: it makes work spill, sheds one task, sees the heaps of Workers. */
import { expect, test } from 'vitest';
import type { GuardStats, GuardTrip } from '../../lib/guard';
import { runFixture } from '../support/child';

const MiB = 2 ** 20;
const LIMIT = 300 * MiB;

test('600 MiB of Buffers pass through 300 MiB by spilling, none lost', async () => {
  const { stats, same } = await runFixture<{ stats: GuardStats; same: boolean }>(
    'guarded-jobs.cjs',
    ['spill'],
  );
  expect(same).toBe(true);
  expect(stats.spills).toBeGreaterThan(0);
  expect(stats.spilledBytes).toBeGreaterThan(300 * MiB);
  expect(stats.spillFailures).toBe(0);
  expect(stats.peakUsage).toBeGreaterThan(0.8 * LIMIT);
  expect(stats.peakUsage).toBeLessThanOrEqual(LIMIT);
  expect(stats).toMatchObject({ reserved: 0, tasks: 0, trips: 0 });
});

interface Shed {
  greedy: Record<string, unknown> & { measured: number };
  modest: { status: string; value: number };
  trips: GuardTrip[];
  closed: number;
  stats: GuardStats;
}

test('a task that overcommits is failed between batches, another one finishes', async () => {
  const { greedy, modest, trips, closed, stats } = await runFixture<Shed>('guarded-jobs.cjs', [
    'shed',
  ]);
  expect(greedy).toMatchObject({
    status: 'rejected',
    name: 'ResourcesExhaustedError',
    source: 'breaker',
    consumer: 'greedy',
    limit: LIMIT,
  });
  expect(greedy.measured).toBeGreaterThan(LIMIT);
  expect(closed).toBe(1);
  expect(trips).toEqual([
    {
      task: 'greedy',
      id: 1,
      reserved: expect.any(Number),
      source: 'usage',
      usage: greedy.measured,
      limit: LIMIT,
      enforced: true,
    },
  ]);
  expect(modest).toEqual({ status: 'fulfilled', value: 120 * MiB });
  expect(stats).toMatchObject({ trips: 1, shed: 1, reserved: 0, tasks: 0 });
});

interface InWorker {
  roseIn: number;
  risen: number;
  fellIn: number;
  left: number;
}

// Once more where the machine was too busy to be on time.
test("usage has a Worker's heap in it within 200 ms, and not once it has ended", {
  retry: 2,
}, async () => {
  const { roseIn, risen, fellIn, left } = await runFixture<InWorker>('guarded-jobs.cjs', [
    'worker',
  ]);
  expect(roseIn).toBeLessThan(200);
  // 80 MB of arrays in it.
  expect(risen).toBeGreaterThan(75e6);
  expect(risen).toBeLessThan(95e6);
  expect(fellIn).toBeLessThan(200);
  expect(left).toBeLessThan(5e6);
});
