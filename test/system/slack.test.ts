/**
 * Slack neither kills nor latches: bench/slack.mjs, a few runs of it. OOM_GUARD_RUNS=20 for the
 * number that the figures in the documentation rest on.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { kernelLimitsAvailable } from '../../lib/cli/kernel-limit';
import { describeWith, root } from '../support/tools';

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
const support = kernelLimitsAvailable();

describeWith(
  'slack in a 500 MB container',
  {
    name: 'a memory cgroup',
    available: support.available,
    why: support.available ? '' : support.reason,
  },
  () => {
    let checked: Series;
    let unchecked: Series;

    beforeAll(
      async () => {
        const { stdout } = await promisify(execFile)(
          process.execPath,
          [path.join(root, 'bench', 'run.mjs'), 'slack', String(runs)],
          { maxBuffer: 64 << 20 },
        );
        ({ checked, unchecked } = JSON.parse(stdout));
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
  },
);
