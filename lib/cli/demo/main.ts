/** The demo: the same job without a limit, with a limit and no guard, and with both. */
import { formatSize } from '../../format';
import { parseSize } from '../../sizes';
import { kernelLimitsAvailable } from '../kernel-limit';
import { chart } from './chart';
import { type Dataset, ensureDataset, maxRows } from './dataset';
import type { JobKind, Sample } from './protocol';
import { outcomeTable, unexpected } from './report';
import { type Outcome, type RunPlan, runJob } from './run-job';
import { type ProgressLine, paintFor, progressLine } from './terminal';

/** What can be chosen, by environment variables. */
export interface DemoSettings {
  /** Rows of the data set: `OOM_GUARD_DEMO_ROWS`. */
  rows: number;
  /** The kernel's limit, bytes: `OOM_GUARD_DEMO_LIMIT`. The guard's is 60 % of it. */
  kernelLimit: number;
  /** The jobs to run: `OOM_GUARD_DEMO_JOBS`, separated by commas. */
  kinds: JobKind[];
}

const allKinds: readonly JobKind[] = ['buffers', 'objects'];

const guardShare = 0.6;

/** Reads the settings; throws when one of them makes no sense. */
export function settingsFrom(environment: NodeJS.ProcessEnv): DemoSettings {
  const rows = Number(environment.OOM_GUARD_DEMO_ROWS || 6_000_000);
  if (!Number.isInteger(rows) || rows < 1 || rows > maxRows) {
    throw new RangeError(`OOM_GUARD_DEMO_ROWS must be a whole number from 1 to ${maxRows}`);
  }
  const kernelLimit = parseSize(environment.OOM_GUARD_DEMO_LIMIT || '500MiB', {
    name: 'OOM_GUARD_DEMO_LIMIT',
  });
  const kinds = (environment.OOM_GUARD_DEMO_JOBS || allKinds.join()).split(',') as JobKind[];
  if (!kinds.every((kind) => allKinds.includes(kind))) {
    throw new RangeError(`OOM_GUARD_DEMO_JOBS must be some of ${allKinds.join()}`);
  }
  return { rows, kernelLimit, kinds };
}

/** Runs the demo. Resolves with the exit code: 0 when all went as it should. */
export async function runDemo(
  settings: DemoSettings,
  stream: NodeJS.WriteStream = process.stdout,
): Promise<number> {
  await requirePeers();
  const paint = paintFor(stream);
  const line = progressLine(stream);
  const support = kernelLimitsAvailable();
  const guardLimit = Math.floor(settings.kernelLimit * guardShare);

  line.print(
    `A job sorts and aggregates ${millions(settings.rows)} million rows, sharp beside it.`,
  );
  if (support.available) {
    line.print(
      `Kernel limit ${formatSize(settings.kernelLimit)} (cgroup v${support.version}), ` +
        `guard limit ${formatSize(guardLimit)}.`,
    );
  } else {
    line.print(
      `No kernel limit can be set here: ${support.reason}.\n` +
        `The guarded runs have the guard's own limit of ${formatSize(guardLimit)} alone, ` +
        'and the runs without a guard are left out.',
    );
  }

  const dataset = await ensureDataset(settings.rows, (share) =>
    line.show(`writing the data set: ${(share * 100).toFixed(0)} %`),
  );
  line.print(datasetLine(dataset));

  const kernelLimit = support.available ? settings.kernelLimit : null;
  const plans = planRuns(settings.kinds, dataset.file, kernelLimit, guardLimit);
  const outcomes: Outcome[] = [];
  for (const [index, plan] of plans.entries()) {
    const name = `[${index + 1}/${plans.length}] ${plan.kind}, ${describe(plan)}`;
    line.show(name);
    const outcome = await runJob(plan, (sample) =>
      line.show(`${name}: ${describeSample(sample, settings.rows)}`),
    );
    outcomes.push(outcome);
    line.print(`${name}: exit ${outcome.exit} after ${(outcome.duration / 1000).toFixed(1)} s`);
  }

  line.print(`\n${outcomeTable(outcomes, paint)}`);
  for (const outcome of outcomes.filter(({ plan }) => plan.role === 'guarded')) {
    line.print(`\nRows in ${outcome.plan.kind}, guarded:\n${await chart(outcome, paint)}`);
  }
  return conclude(outcomes, dataset, line, paint);
}

function conclude(
  outcomes: Outcome[],
  dataset: Dataset,
  line: ProgressLine,
  paint: ReturnType<typeof paintFor>,
): number {
  const problems = unexpected(outcomes);
  line.print('');
  for (const problem of problems) line.print(paint(`Not as expected: ${problem}`, 'red'));
  if (problems.length === 0) {
    line.print(paint('As expected: the guarded runs finished with the reference result.', 'green'));
  }
  line.print(`Kept for the next run: ${dataset.file} (${formatSize(dataset.bytes)})`);
  return problems.length === 0 ? 0 : 1;
}

function planRuns(
  kinds: readonly JobKind[],
  file: string,
  kernelLimit: number | null,
  guardLimit: number,
): RunPlan[] {
  return kinds.flatMap((kind) => {
    const plans: RunPlan[] = [
      { kind, role: 'reference', file, kernelLimit: null, guardLimit: null },
      { kind, role: 'unguarded', file, kernelLimit, guardLimit: null },
      { kind, role: 'guarded', file, kernelLimit, guardLimit },
    ];
    // Without a kernel limit the second would be the first again.
    return plans.filter(({ role }) => role !== 'unguarded' || kernelLimit !== null);
  });
}

function describe({ role, kernelLimit }: RunPlan): string {
  if (role === 'reference') return 'no limit';
  const limited = kernelLimit === null ? 'no kernel limit' : 'kernel limit';
  return role === 'guarded' ? `${limited}, guard` : `${limited}, no guard`;
}

function describeSample(sample: Sample, rows: number): string {
  return [
    `${sample.phase}, ${millions(sample.rows)} of ${millions(rows)} million rows`,
    `live ${formatSize(sample.live)}`,
    `heap ${formatSize(sample.heap)}`,
    `RSS ${formatSize(sample.rss)}`,
    `spilled ${formatSize(sample.spilled)}`,
  ].join(', ');
}

function datasetLine({ file, bytes, created }: Dataset): string {
  const size = formatSize(bytes);
  return `Data set (derived from TPC-H's lineitem), ${created ? 'written' : 'found'}: ${file} (${size})`;
}

function millions(rows: number): string {
  return (rows / 1e6).toFixed(1);
}

/** The demo runs from a checkout, where these are installed; elsewhere they may not be. */
async function requirePeers(): Promise<void> {
  try {
    await Promise.all([import('@duckdb/node-api'), import('sharp'), import('asciichart')]);
  } catch (error) {
    throw new Error(
      'the demo needs these packages: npm install @duckdb/node-api sharp asciichart',
      {
        cause: error,
      },
    );
  }
}
