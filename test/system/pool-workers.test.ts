/** Pools of several Workers over one limit, with real memory. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

const GiB = 2 ** 30;
const rounds = Number(process.env.OOM_GUARD_RUNS ?? 20);
const pairs = nativeTestFile('pairs.node');

describeWith('a race', pairs, () => {
  test(`8 Workers ask for 100 MB with room for 3 while 200 MB come and go: 3 are let in, ${rounds} times`, {
    timeout: 60_000 + rounds * 3000,
  }, async () => {
    const report = await runFixture<{ rounds: number; wrong: number[]; cycles: number }>(
      'pool-workers.cjs',
      ['race', String(rounds), pairs.path],
      { timeout: 60_000 + rounds * 3000 },
    );
    expect(report).toMatchObject({ rounds, wrong: [] });
    expect(report.cycles).toBeGreaterThan(3 * rounds);
  });
});

interface Died {
  ending: string;
  exists: boolean;
  before: { granted: boolean; ownToo: boolean; reserved: number };
  refusal: { source: string; reserved: number; limit: number };
  after: { reserved: number; pending: number };
  grows: boolean;
}

test('what a Worker reserved counts for the main thread until it ends, in whatever way', async () => {
  const reports = await runFixture<Died[]>('pool-workers.cjs', ['dies']);
  expect(reports.map(({ ending }) => ending)).toEqual(
    ['end', 'exit', 'throw', 'terminate'].flatMap((ending) => [ending, ending]),
  );
  for (const report of reports) {
    expect(report).toMatchObject({
      before: { granted: true, ownToo: false, reserved: 3 * GiB },
      refusal: { source: 'pool', reserved: 3 * GiB, limit: 4 * GiB },
      after: { reserved: 0, pending: 0 },
      grows: true,
    });
  }
});
