/**
 * The package that is published, installed where nothing can be compiled: the prebuilt addon is
 * enough. Built from these sources in a copy, so that nobody's `build/` is touched.
 */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { temporaryDirectory } from '../support/package';
import { runNode } from '../support/run-node';
import { describeWith, nodeBinary, root } from '../support/tools';

const run = promisify(execFile);
const directory = temporaryDirectory();
const sources = path.join(directory, 'sources');
const project = path.join(directory, 'project');
const installed = path.join(project, 'node_modules', 'oom-guard');
let published: string[];

function copySources(): void {
  mkdirSync(sources);
  for (const part of ['package.json', 'binding.gyp', 'native', 'dist']) {
    cpSync(path.join(root, part), path.join(sources, part), {
      recursive: true,
      filter: (from) => from !== path.join(root, 'native', 'build'),
    });
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(sources, 'node_modules'));
}

/** As npm would, from what is here: no network. Then without anything to build from. */
async function installTarball(tarball: string): Promise<void> {
  mkdirSync(installed, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  for (const [place, { dev, devOptional }] of Object.entries<Record<string, boolean>>(packages)) {
    const from = path.join(root, place);
    if (place === '' || dev || devOptional || !existsSync(from)) continue;
    cpSync(from, path.join(project, place), { recursive: true });
  }
  for (const source of ['native', 'binding.gyp']) {
    rmSync(path.join(installed, source), { recursive: true });
  }
}

beforeAll(async () => {
  copySources();
  await run('npm', ['run', 'prebuild'], { cwd: sources, maxBuffer: 64 << 20 });
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json'], { cwd: sources });
  const [{ filename, files }] = JSON.parse(stdout);
  published = files.map((file: { path: string }) => file.path);
  await installTarball(path.join(sources, filename));
}, 120_000);

test('what is published has the prebuilt addon and types, and no tests', () => {
  expect(published).toContain('dist/index.d.ts');
  const platform = `prebuilds/${process.platform}-${process.arch}/`;
  expect(published.some((file) => file.startsWith(platform) && file.endsWith('.node'))).toBe(true);
  expect(published.filter((file) => /^(build|test|native\/(build|test))\//.test(file))).toEqual([]);
});

const script = `
  const { liveBytes, memory, startCounting } = require('oom-guard');
  require('oom-guard/pool');
  const { available, allocators } = startCounting();
  const before = liveBytes();
  const held = Buffer.alloc(64 << 20, 1);
  const counted = liveBytes() - before;
  String(memory());
  const addons = [...new Set(require('node:fs').readFileSync('/proc/self/maps', 'utf8').match(/\\S*oom_?-?guard\\S*\\.node/g))];
  console.log(JSON.stringify({ available, mechanism: allocators[0].mechanism, counted, held: held.length, addons }));`;

for (const major of [20, 22, 24, 26]) {
  const node = nodeBinary(major);
  describeWith(`Node ${major}`, node, () => {
    test('loads the prebuilt addon and counts with it', async () => {
      const ended = await runNode(['-e', script], {
        node: node.path,
        cwd: project,
        env: { PREBUILDS_ONLY: '1' },
      });
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      const report = JSON.parse(ended.stdout);
      expect(report).toMatchObject({ available: true, mechanism: 'callsites' });
      // What Node's own start left behind may be freed meanwhile.
      expect(report.counted).toBeGreaterThanOrEqual(report.held - 2 * 2 ** 20);
      expect(report.counted).toBeLessThan(1.01 * report.held);
      expect(report.addons).toHaveLength(1);
      expect(report.addons[0]).toContain(path.join(installed, 'prebuilds'));
    });
  });
}
