/**
 * Slack neither kills nor latches: bench/slack.mjs, a few runs of it. OOM_GUARD_RUNS=20 for the
 * number that the figures in the documentation rest on.
 */
import { beforeAll, expect, test } from 'vitest';
import { memoryCgroup, runBench } from '../support/benches';
import { describeWith } from '../support/tools';

interface Run {
  exit: number;
  idle: { liveMB: number; rssMB: number; anonMB: number };
  rssOverLive: number;
  grantedAtOnce: boolean;
  heldMB: number;
  reclaims: { slack: number; garbage: number } | null;
}

interface Series {
  alive: number;
  killed: number;
  runs: Run[];
}

const runs = Number(process.env.OOM_GUARD_RUNS ?? 3);
const secondsPerRun = 30;

describeWith('slack in a 500 MB container', memoryCgroup, () => {
  let checked: Series;
  let unchecked: Series;

  beforeAll(
    async () => {
      ({ checked, unchecked } = await runBench<{ checked: Series; unchecked: Series }>(
        'slack',
        runs,
      ));
    },
    2 * runs * secondsPerRun * 1000,
  );

  test('RSS is more than three times live once the burst is over', () => {
    for (const run of [...checked.runs, ...unchecked.runs]) {
      expect(run.rssOverLive).toBeGreaterThan(3);
    }
  });

  test('a pool at 1.5 times usage grants a request at once', () => {
    for (const run of [...checked.runs, ...unchecked.runs]) {
      expect(run.grantedAtOnce).toBe(true);
    }
  });

  test('with the slack given back first 250 MB of Buffers fit every time', () => {
    expect(checked.alive, JSON.stringify(checked.runs)).toBe(runs);
    for (const { reclaims } of checked.runs) expect(reclaims?.slack).toBeGreaterThan(0);
  });

  test('without the check the kernel kills most', () => {
    expect(unchecked.killed, JSON.stringify(unchecked.runs)).toBeGreaterThanOrEqual(
      Math.ceil(0.75 * runs),
    );
  });
});
