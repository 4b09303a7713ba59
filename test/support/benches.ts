/** Benchmarks that tests repeat a few times, in memory cgroups of their own. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { kernelLimitsAvailable } from '../../lib/cli/kernel-limit';
import { root } from './tools';

const support = kernelLimitsAvailable();

/** What they need. */
export const memoryCgroup = {
  name: 'a memory cgroup',
  available: support.available,
  why: support.available ? '' : support.reason,
};

/** The JSON object that a benchmark prints. */
export async function runBench<T>(...args: (string | number)[]): Promise<T> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [path.join(root, 'bench', 'run.mjs'), ...args.map(String)],
    { maxBuffer: 64 << 20 },
  );
  return JSON.parse(stdout);
}
