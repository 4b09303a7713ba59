// A fixture in a memory cgroup of its own. Needs root and a build.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from './children.mjs';

const { createKernelLimit } = createRequire(import.meta.url)('../../dist/cli/kernel-limit.js');

export const KILLED = 137;
export const ABORTED = 134;

/**
 * Runs a script of test/fixtures under a hard limit: how it ended (137: by the kernel), what the
 * kernel charged at most, and the JSON lines that it printed, by their `phase`.
 */
export async function runContained(limit, script, args, env = {}) {
  const { chargedBytes, ended } = await runTogether(limit, [{ script, args }], env);
  return { chargedBytes, ...ended[0] };
}

/** Several at once under one limit. */
export async function runTogether(limit, scripts, env = {}) {
  const group = createKernelLimit(limit);
  try {
    const ended = await Promise.all(
      scripts.map(({ script, args }) => run(group, script, args, env)),
    );
    return { chargedBytes: group.peakBytes(), ended };
  } finally {
    group.close();
  }
}

async function run(group, script, args, env) {
  const { file, args: command } = group.command(process.execPath, [
    path.join(root, 'test', 'fixtures', script),
    ...args.map(String),
  ]);
  const { MALLOC_ARENA_MAX: _, ...inherited } = process.env;
  const child = spawn(file, command, {
    env: { ...inherited, NODE_OPTIONS: '', ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  child.stdout.on('data', (data) => {
    output += data;
  });
  const [code, signal] = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (...ended) => resolve(ended));
  });
  const phases = {};
  for (const line of output.split('\n')) {
    try {
      const { phase, ...figures } = JSON.parse(line);
      phases[phase] = figures;
    } catch {
      // Killed in the middle of a line.
    }
  }
  const exit = signal === 'SIGKILL' && group.oomKilled() ? KILLED : ended(code, signal);
  return { exit, phases };
}

/** As a shell tells it. V8 ends a process that has no heap left by SIGABRT (134). */
function ended(code, signal) {
  return signal === 'SIGABRT' ? ABORTED : (code ?? signal);
}
