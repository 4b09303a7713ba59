// A fixture in a memory cgroup of its own. Needs root and a build.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from './children.mjs';

const { createKernelLimit } = createRequire(import.meta.url)('../../dist/cli/kernel-limit.js');

export const KILLED = 137;

/**
 * Runs a script of test/fixtures under a hard limit: how it ended (137: by the kernel), what the
 * kernel charged at most, and the JSON lines that it printed, by their `phase`.
 */
export async function runContained(limit, script, args, env = {}) {
  const group = createKernelLimit(limit);
  try {
    const { file, args: command } = group.command(process.execPath, [
      path.join(root, 'test', 'fixtures', script),
      ...args.map(String),
    ]);
    const { MALLOC_ARENA_MAX: _, ...inherited } = process.env;
    const child = spawn(file, command, {
      env: { ...inherited, NODE_OPTIONS: '', ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
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
    const exit = signal === 'SIGKILL' && group.oomKilled() ? KILLED : (code ?? signal);
    return { exit, chargedBytes: group.peakBytes(), phases };
  } finally {
    group.close();
  }
}
