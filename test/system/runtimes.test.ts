/** Deno and Bun start, count what they let be counted, and say what not. */
import { describe, expect, test } from 'vitest';
import type { AuditEntry, MemoryData } from '../../lib/counting';
import { runFixture } from '../support/child';
import { temporaryDirectory } from '../support/package';
import { describeWith, nativeTestFile, toolModule } from '../support/tools';

interface Grown {
  counted: number;
  held: number;
}

interface Report extends Pick<MemoryData, 'allocators' | 'notCovered'> {
  runtime: string;
  available: boolean;
  buffers: Grown;
  blocks: Grown;
  table: number;
  audit: AuditEntry[];
  printed: string;
  ledger: number;
}

const env = { DENO_DIR: temporaryDirectory(), DENO_NO_UPDATE_CHECK: '1', GLIBC_TUNABLES: '' };

const binary = (module: string, file: string) => {
  const tool = toolModule(`${module}/${file}`);
  const run = (...nodeArgs: string[]) =>
    runFixture<Report>('runtime.cjs', [], { node: tool.path, nodeArgs, env });
  return { ...tool, run };
};

const deno = binary('@deno/linux-x64-glibc', 'deno');
const bun = binary('@oven/bun-linux-x64', 'bin/bun');

/** Addons and DuckDB are counted everywhere: their slots, and their jemalloc's hooks. */
function expectModulesCounted({ available, blocks, table, allocators, audit }: Report): void {
  expect(available).toBe(true);
  // A runtime's own threads allocate and free meanwhile, some 100 KB either way.
  expect(blocks.counted).toBeGreaterThan(0.98 * blocks.held);
  expect(blocks.counted).toBeLessThan(1.02 * blocks.held);
  expect(table).toBeGreaterThan(40e6);
  expect(allocators.map(({ mechanism }) => mechanism)).toEqual(['callsites', 'hooks']);
  for (const { holds, name } of audit) expect(holds, name).toBe(true);
}

describe('other runtimes', () => {
  describeWith('with the native tests built', nativeTestFile('storm.node'), () => {
    describeWith('Deno', deno, () => {
      test('is counted as Node is', async () => {
        const report = await deno.run('run', '--v8-flags=--expose-gc', '--allow-all');
        expect(report.runtime).toBe('deno');
        expectModulesCounted(report);
        expect(report.buffers.counted).toBeGreaterThan(0.98 * report.buffers.held);
        expect(report.buffers.counted).toBeLessThan(1.02 * report.buffers.held);
        expect(report.ledger).toBeGreaterThan(100e6);
      });
    });

    describeWith('Bun', bun, () => {
      test('has its addons counted, and its own memory named as not covered', async () => {
        const report = await bun.run();
        expect(report.runtime).toBe('bun');
        expectModulesCounted(report);
        // Its allocator is inside its executable: no call of its own passes a slot.
        expect(report.buffers.counted).toBeLessThan(0.1 * report.buffers.held);
        const gaps = report.notCovered.map(({ what, reason }) => `${what}: ${reason}`).join('\n');
        expect(gaps).toMatch(/bun/i);
        expect(report.printed).toMatch(/bun/i);
      });
    });
  });
});
