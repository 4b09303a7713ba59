/** Runs Node with any command line, for half a minute at most, and tells how it ended. */
import { spawn } from 'node:child_process';

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
  /** When it ended, on the wall clock, ms. */
  at: number;
}

export interface NodeOptions {
  node?: string;
  cwd?: string;
  env?: Record<string, string>;
}

export function runNode(
  args: readonly string[],
  { node = process.execPath, cwd, env }: NodeOptions = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(node, args, {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, NODE_OPTIONS: '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 30_000,
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data) => {
      stdout += data;
    });
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr, at: Date.now() }));
  });
}
