/**
 * What a guard is for, in containers: bench/shedding.mjs, once each. OOM_GUARD_RUNS=20 for the number
 * that the figures in the documentation rest on.
 */
import { expect, test } from 'vitest';
import { memoryCgroup, runBench } from '../support/benches';
import { describeWith } from '../support/tools';

interface Series {
  runs: number;
  well: number;
  killed: number;
  aborted: number;
  hit: number;
  failures: unknown[];
}

const runs = Number(process.env.OOM_GUARD_RUNS ?? 1);
const secondsPerRun = 60;

async function series(name: string): Promise<Series> {
  const report = await runBench<Record<string, Series>>('shedding', runs, name);
  return report[name] as Series;
}

describeWith('in a container', memoryCgroup, () => {
  test.each([
    ['garbage', 'dropped Buffers shed nobody: a collection was enough'],
    ['greedy', 'the task that takes without asking goes, the nine others finish'],
    ['query', 'a query that grows over the limit is stopped inside'],
    ['objects', 'tasks that keep objects spill before V8 aborts'],
    ['workers', 'Workers whose heaps grow share one limit'],
    ['auto', 'processes in one container share it'],
  ])(
    '%s: %s',
    async (name) => {
      const { well, failures } = await series(name);
      expect(failures).toEqual([]);
      expect(well).toBe(runs);
    },
    runs * secondsPerRun * 1000,
  );

  test(
    'without a guard V8 aborts for the objects, and the kernel kills for the Workers',
    async () => {
      expect(await series('objects-bare')).toMatchObject({ well: 0, aborted: runs });
      expect(await series('workers-bare')).toMatchObject({ well: 0, killed: runs });
    },
    runs * 2 * secondsPerRun * 1000,
  );
});
