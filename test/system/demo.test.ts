import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { settingsFrom } from '../../lib/cli/demo/main';
import { createKernelLimit, kernelLimitsAvailable } from '../../lib/cli/kernel-limit';

const support = kernelLimitsAvailable();
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'oom-guard-test-'));
const data = path.join(temporary, 'data');
// The demo's own temporary files are looked for after it has ended.
const scratch = path.join(temporary, 'scratch');
fs.mkdirSync(scratch);

afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }));

async function demo(environment: NodeJS.ProcessEnv, interruptAt?: RegExp) {
  const child = spawn(process.execPath, [path.resolve('dist/cli/demo.js')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, OOM_GUARD_DEMO_DIR: data, TMPDIR: scratch, ...environment },
  });
  let output = '';
  const listen = (text: Buffer) => {
    output += text;
    if (interruptAt?.test(output)) child.kill('SIGINT');
  };
  child.stdout.on('data', listen);
  child.stderr.on('data', listen);
  const [code, signal] = await once(child, 'close');
  return { code, signal, output, pid: child.pid };
}

/** The cells of the outcome table, by job and run. */
function outcomes(output: string): Map<string, string[]> {
  const rows = output.matchAll(/^(buffers|objects) +(reference|unguarded|guarded) +(.*)$/gm);
  return new Map(
    [...rows].map(([, kind, role, rest = '']) => [`${kind} ${role}`, rest.trim().split(/ {2,}/)]),
  );
}

function expectTrace(output: string, kind: string, dead: string): void {
  const rows = outcomes(output);
  expect(rows.get(`${kind} unguarded`)?.[0], output).toContain(dead);
  expect(rows.get(`${kind} unguarded`)?.at(-1), output).toMatch(/-$/);
  const result = rows.get(`${kind} reference`)?.at(-1)?.slice(-8);
  expect(result, output).toMatch(/^[0-9a-f]{8}$/);
  expect(rows.get(`${kind} guarded`)?.at(-1)?.slice(-8), output).toBe(result);
}

/** Where the groups are made. */
function groupsDirectory(): string {
  const group = createKernelLimit(2 ** 20);
  group.close();
  return path.dirname(group.directory);
}

function expectNothingLeft(pid: number | undefined): void {
  const groups = fs.readdirSync(groupsDirectory());
  expect(groups.filter((name) => name.startsWith(`oom-guard-${pid}-`))).toEqual([]);
  expect(fs.readdirSync(scratch)).toEqual([]);
  expect(fs.readdirSync(data).filter((name) => !name.endsWith('.parquet'))).toEqual([]);
}

describe.runIf(support.available)('npm run demo', () => {
  it('rows in Buffers: killed by the kernel without the guard, finished with it', async () => {
    const { code, output, pid } = await demo({
      OOM_GUARD_DEMO_JOBS: 'buffers',
      OOM_GUARD_DEMO_ROWS: '4500000',
    });
    expectTrace(output, 'buffers', '137 kernel');
    expect(output).toContain('lineitem-v1-4500000.parquet');
    expect(code, output).toBe(0);
    expectNothingLeft(pid);
  }, 120_000);

  it('rows as objects: aborted by V8 without the guard, finished with it', async () => {
    const { code, output, pid } = await demo({
      OOM_GUARD_DEMO_JOBS: 'objects',
      OOM_GUARD_DEMO_ROWS: '1500000',
    });
    expectTrace(output, 'objects', '134 V8');
    expect(code, output).toBe(0);
    expectNothingLeft(pid);
  }, 120_000);

  it('leaves nothing behind when it is interrupted', async () => {
    const { signal, pid } = await demo(
      { OOM_GUARD_DEMO_JOBS: 'objects', OOM_GUARD_DEMO_ROWS: '1500000' },
      /\[2\/3\].*exit/,
    );
    expect(signal).toBe('SIGINT');
    expectNothingLeft(pid);
  }, 120_000);
});

describe('settingsFrom', () => {
  it('has the documented defaults', () => {
    expect(settingsFrom({})).toEqual({
      rows: 6_000_000,
      kernelLimit: 500 * 2 ** 20,
      kinds: ['buffers', 'objects'],
    });
  });

  it.each([
    { OOM_GUARD_DEMO_ROWS: '0' },
    { OOM_GUARD_DEMO_ROWS: '1.5' },
    { OOM_GUARD_DEMO_ROWS: 'many' },
    { OOM_GUARD_DEMO_LIMIT: '500 apples' },
    { OOM_GUARD_DEMO_JOBS: 'buffers,sheep' },
  ])('refuses %o', (environment) => {
    expect(() => settingsFrom(environment)).toThrow();
  });
});
