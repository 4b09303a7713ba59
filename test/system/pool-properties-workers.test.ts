/**
 * Random sequences of every operation on pools of several Workers that share a ledger, some of which
 * are terminated in the middle. OOM_GUARD_RUNS=100 for many more of them, OOM_GUARD_SEED for those of
 * a failure once more.
 */
import { randomInt } from 'node:crypto';
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';

const sequences = Number(process.env.OOM_GUARD_RUNS ?? 3);
const seed = Number(process.env.OOM_GUARD_SEED ?? randomInt(2 ** 31));
const timeout = 60_000 + sequences * 20_000;

interface Report {
  seed: number;
  failures: unknown[];
  looks: number;
  counts: Record<string, Record<string, number>>;
}

test(`Workers keep the books of one ledger, whatever they do and however they end (seed ${seed})`, {
  timeout,
}, async () => {
  const args = [String(sequences), String(seed)];
  const report = await runFixture<Report>('pool-properties-workers.cjs', args, { timeout });
  expect(report.failures, `seed ${seed}`).toEqual([]);
  expect(report.looks).toBeGreaterThan(1000);
  expect(Object.keys(report.counts)).toEqual([
    'Unbounded',
    'Greedy',
    'FairSpill',
    'TrackConsumers',
  ]);
  // Else the sequences would show nothing.
  for (const counts of Object.values(report.counts)) {
    for (const name of ['granted', 'refused', 'usage']) {
      expect(counts[name], name).toBeGreaterThan(sequences);
    }
  }
  for (const capped of ['Greedy', 'FairSpill', 'TrackConsumers']) {
    expect(report.counts[capped]?.pool, capped).toBeGreaterThan(sequences);
    expect(report.counts[capped]?.spilled, capped).toBeGreaterThan(sequences);
  }
});
