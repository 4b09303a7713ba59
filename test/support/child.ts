/** Runs a script of test/fixtures in a process of its own. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { root } from './tools';

export interface ChildOptions {
  node?: string;
  nodeArgs?: string[];
  env?: Record<string, string>;
  timeout?: number;
}

/** The JSON that the script prints as its last line. Rejects with what it wrote when it fails. */
export function runFixture<T>(
  fixture: string,
  args: string[] = [],
  { node = process.execPath, nodeArgs = [], env = {}, timeout = 100_000 }: ChildOptions = {},
): Promise<T> {
  const file = path.join(root, 'test', 'fixtures', fixture);
  return new Promise((resolve, reject) => {
    execFile(
      node,
      [...nodeArgs, file, ...args],
      { env: { ...process.env, NODE_OPTIONS: '', ...env }, timeout, maxBuffer: 64 << 20 },
      (error, stdout, stderr) => {
        if (error) {
          reject(new Error(`${fixture} ${args.join(' ')}: ${error.message}\n${stdout}\n${stderr}`));
          return;
        }
        resolve(JSON.parse(stdout.trimEnd().split('\n').at(-1) as string));
      },
    );
  });
}
