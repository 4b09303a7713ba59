// npm run bench -- sorter [pairs] [rows]: an external sort of rows of 100 bytes under a limit of
// 128 MB in a container of 400 MB, and the same sort with memory enough, one after the other. Needs
// root (memory cgroups) and a build.
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { root } from './support/children.mjs';
import { summary } from './support/statistics.mjs';

const { createKernelLimit } = createRequire(import.meta.url)('../dist/cli/kernel-limit.js');

const LIMIT = 128e6;
const CONTAINER = 400e6;
const ENOUGH = 4e9;

const megabytes = (bytes) => Math.round(bytes / 1e5) / 10;

/** One sort in a process of its own, which a container holds or none. */
async function sortOnce(rows, limit, container, directory) {
  const script = path.join(root, 'test', 'fixtures', 'external-sorter.cjs');
  const args = [script, String(rows), String(limit), directory];
  const group = container === undefined ? undefined : createKernelLimit(container);
  try {
    const command = group?.command(process.execPath, args) ?? { file: process.execPath, args };
    const child = spawn(command.file, command.args, {
      env: { ...process.env, NODE_OPTIONS: '' },
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
    if (code !== 0) throw new Error(`the sort ended with ${code ?? signal}`);
    return JSON.parse(output.trimEnd().split('\n').at(-1));
  } finally {
    group?.close();
  }
}

export default async function sorter([pairs = '3', rows = '5000000']) {
  const count = Number(pairs);
  if (!Number.isSafeInteger(count) || count < 1) throw new RangeError(`pairs: ${pairs}`);
  if (!Number.isSafeInteger(Number(rows))) throw new RangeError(`rows: ${rows}`);
  const directory = mkdtempSync(path.join(os.tmpdir(), 'oom-guard-bench-'));
  const limited = [];
  const enough = [];
  try {
    for (let pair = 0; pair < count; pair++) {
      limited.push(await sortOnce(Number(rows), LIMIT, CONTAINER, directory));
      enough.push(await sortOnce(Number(rows), ENOUGH, undefined, directory));
    }
    return {
      bench: 'sorter',
      node: process.version,
      rows: Number(rows),
      bytes: Number(rows) * 100,
      limitMB: megabytes(LIMIT),
      containerMB: megabytes(CONTAINER),
      pairs: count,
      right: [...limited, ...enough].every(
        ({ complete, misplaced }) => complete && misplaced === 0,
      ),
      limitedMs: summary(limited.map(({ ms }) => ms)),
      enoughMs: summary(enough.map(({ ms }) => ms)),
      timeRatio: summary(limited.map(({ ms }, i) => ms / enough[i].ms)),
      peakUsageMB: summary(limited.map(({ peakUsage }) => megabytes(peakUsage))),
      peakOverLimit: Math.max(...limited.map(({ peakUsage }) => peakUsage / LIMIT)),
      maxRssMB: summary(limited.map(({ maxRss }) => megabytes(maxRss))),
      spilledMB: summary(limited.map(({ spilledBytes }) => megabytes(spilledBytes))),
      spills: summary(limited.map(({ spills }) => spills)),
      reservedAtEnd: Math.max(...limited.map(({ reserved }) => reserved)),
      leftOnDisk: readdirSync(directory).length,
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
