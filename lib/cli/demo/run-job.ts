/** Runs one job in a child process and collects what is known of its end. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { onExit } from '../../on-exit';
import { createKernelLimit, type KernelLimit } from '../kernel-limit';
import type { JobKind, JobMessage, JobResult, Sample } from './protocol';

/** How a job is run. */
export interface RunPlan {
  kind: JobKind;
  role: 'reference' | 'unguarded' | 'guarded';
  /** The Parquet file. */
  file: string;
  /** Hard limit by the kernel, bytes; null for none. */
  kernelLimit: number | null;
  /** The guard's limit, bytes; null for no guard. */
  guardLimit: number | null;
}

/** How it ended. Sizes in bytes. */
export interface Outcome {
  plan: RunPlan;
  /** Exit status as a shell tells it: 128 plus the number of the signal that ended it. */
  exit: number;
  /** True when the kernel killed it for want of memory. */
  oomKilled: boolean;
  /** The last word, if it got that far. */
  result: JobResult | null;
  samples: Sample[];
  /** Highest of the samples. */
  peakLive: number;
  peakHeap: number;
  /** Highest sum of live bytes and used heap in one sample. */
  peakUsage: number;
  peakRss: number;
  spilled: number;
  refusals: number;
  /** Milliseconds from start to exit. */
  duration: number;
  /** The end of what it wrote to stderr. */
  stderr: string;
}

/** A job that takes longer has hung, milliseconds. */
const patience = 5 * 60_000;

/**
 * V8's own limit for the reference, MiB: six million objects need more than the default on small
 * machines. Under a kernel limit V8 chooses by that, as it does in a container.
 */
const referenceHeap = 4096;

/** Runs `plan`. `onSample` is told how it goes. Leaves nothing behind, however it ends. */
export async function runJob(plan: RunPlan, onSample: (sample: Sample) => void): Promise<Outcome> {
  const spillDirectory = fs.mkdtempSync(path.join(os.tmpdir(), 'oom-guard-demo-'));
  // By us and not by the child, which may be killed at any moment.
  // Repeatedly, because a child that is being killed may still be writing.
  const removeSpill = () =>
    fs.rmSync(spillDirectory, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
  const forgetSpill = onExit(removeSpill);
  let group: KernelLimit | null = null;
  try {
    if (plan.kernelLimit !== null) group = createKernelLimit(plan.kernelLimit);
    return await watch(plan, spillDirectory, group, onSample);
  } finally {
    group?.close();
    removeSpill();
    forgetSpill();
  }
}

function watch(
  plan: RunPlan,
  spillDirectory: string,
  group: KernelLimit | null,
  onSample: (sample: Sample) => void,
): Promise<Outcome> {
  const { kind, file, guardLimit } = plan;
  const args = [
    ...(plan.role === 'reference' ? [`--max-old-space-size=${referenceHeap}`] : []),
    path.join(__dirname, 'job.js'),
    JSON.stringify({ kind, file, spillDirectory, guardLimit }),
  ];
  const command = group?.command(process.execPath, args) ?? { file: process.execPath, args };
  const began = performance.now();
  const child = spawn(command.file, command.args, {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    timeout: patience,
    killSignal: 'SIGKILL',
    env: childEnvironment(),
  });
  const forgetChild = onExit(() => child.kill('SIGKILL'));

  const samples: Sample[] = [];
  let result: JobResult | null = null;
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-4096);
  });
  child.on('message', (message: JobMessage) => {
    if (message.type === 'result') result = message;
    else {
      samples.push(message);
      onSample(message);
    }
  });

  return new Promise((resolve, reject) => {
    child.once('error', (error) => {
      forgetChild();
      reject(error);
    });
    child.once('close', (code, signal) => {
      forgetChild();
      const highest = (of: (sample: Sample) => number) => Math.max(0, ...samples.map(of));
      resolve({
        plan,
        exit: code ?? 128 + (signal ? os.constants.signals[signal] : 0),
        oomKilled: group?.oomKilled() ?? false,
        result,
        samples,
        peakLive: highest((sample) => sample.live),
        peakHeap: highest((sample) => sample.heap),
        peakUsage: highest((sample) => sample.live + sample.heap),
        peakRss: highest((sample) => sample.rss),
        spilled: highest((sample) => sample.spilled),
        refusals: highest((sample) => sample.refusals),
        duration: performance.now() - began,
        stderr,
      });
    });
  });
}

/** Ours without what would change the child's limits: the demo shows what V8 does by itself. */
function childEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...environment } = process.env;
  return environment;
}
