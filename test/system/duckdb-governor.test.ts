/**
 * A query that needs 2 GB beside JavaScript that wants 300 MB, in a 700 MB container:
 * bench/governor.mjs, a few runs of it. OOM_GUARD_RUNS=20 for the number that the figures in the
 * documentation rest on.
 */
import { beforeAll, expect, test } from 'vitest';
import { memoryCgroup, runBench } from '../support/benches';
import { describeWith } from '../support/tools';

interface Run {
  right: boolean;
  exit: number;
  cache: { same: boolean; spills: number } | null;
  guard: { peakUsage: number; shed: number } | null;
}

interface Series {
  right: number;
  killed: number;
  failed: number;
  runs: Run[];
}

const runs = Number(process.env.OOM_GUARD_RUNS ?? 2);
const secondsPerRun = 120;

describeWith('DuckDB and JavaScript in a 700 MB container', memoryCgroup, () => {
  let governed: Series;
  let bare: Series;

  beforeAll(
    async () => {
      ({ governed, bare } = await runBench<{ governed: Series; bare: Series }>('governor', runs));
    },
    2 * runs * secondsPerRun * 1000,
  );

  test('governed, both end with the right result every time', () => {
    expect(governed).toMatchObject({ right: runs, killed: 0, failed: 0 });
    for (const { cache, guard } of governed.runs) {
      expect(cache?.spills).toBeGreaterThan(0);
      expect(guard?.shed).toBe(0);
    }
  });

  test('without governor and pool at least three of four die or fail', () => {
    expect(bare.right).toBeLessThanOrEqual(runs / 4);
  });
});
