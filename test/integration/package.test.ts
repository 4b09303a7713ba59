/** The package as a dependency: what it prints (nothing), `--require`, `--import`, ESM names. */
import { expect, test } from 'vitest';
import { linkedProject } from '../support/package';
import { runNode } from '../support/run-node';

const cwd = linkedProject();
const requiring = (name: string) => `require('oom-guard${name}');`;
const silent = { code: 0, stdout: '', stderr: '' };

test.each([
  [
    'requiring it',
    ['-e', ['', '/pool', '/spill', '/duckdb', '/sharp', '/sqlite'].map(requiring).join('\n')],
  ],
  ['starting it', ['-e', "require('oom-guard').startCounting()"]],
  ['--require', ['--require', 'oom-guard/register', '-e', '']],
  ['--import', ['--import', 'oom-guard/register', '-e', '']],
])('%s prints nothing', async (_, args) => {
  expect(await runNode(args, { cwd })).toMatchObject(silent);
});

test.each(['--require', '--import'])('%s starts counting before the program', async (flag) => {
  const script = "const o = require('oom-guard'); console.log(o.isCounting(), o.liveBytes() > 0)";
  const ended = await runNode([flag, 'oom-guard/register', '-e', script], { cwd });
  expect(ended).toMatchObject({ ...silent, stdout: 'true true\n' });
});

test('ESM imports by name what CommonJS requires', async () => {
  const script = `
    import { createRequire } from 'node:module';
    import path from 'node:path';
    import * as all from 'oom-guard';
    import { createMemoryGuard, memory, ResourcesExhaustedError, startCounting } from 'oom-guard';
    import * as pools from 'oom-guard/pool';
    import * as spilling from 'oom-guard/spill';
    import * as duckdb from 'oom-guard/duckdb';
    import * as sharp from 'oom-guard/sharp';
    import * as sqlite from 'oom-guard/sqlite';
    import { MemoryConsumer, RealUsagePool } from 'oom-guard/pool';
    const require = createRequire(path.resolve('package.json'));
    const added = new Set(['default', 'module.exports', '__esModule']);
    const names = (module) => Object.keys(module).filter((name) => !added.has(name)).sort();
    startCounting();
    console.log(JSON.stringify({
      types: [createMemoryGuard, memory, ResourcesExhaustedError, startCounting, MemoryConsumer, RealUsagePool]
        .map((value) => typeof value),
      live: memory().live > 0,
      same: Object.entries({ '': all, pool: pools, spill: spilling, duckdb, sharp, sqlite }).every(([name, esm]) =>
        names(esm).join() === names(require(['oom-guard', name].filter(Boolean).join('/'))).join()),
    }));`;
  const ended = await runNode(['--input-type=module', '-e', script], { cwd });
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  const { types, live, same } = JSON.parse(ended.stdout);
  expect(types).toEqual(Array(6).fill('function'));
  expect(live).toBe(true);
  expect(same).toBe(true);
});
