/**
 * Popular native modules, one by one and all together: each loads, works, and is counted in a way
 * that is known. Prints what each has inside.
 */
import path from 'node:path';
import Table from 'cli-table3';
import { afterAll, expect, test } from 'vitest';
import type { AllocatorCoverage, AuditEntry, Coverage } from '../../lib/counting';
import { formatSize } from '../../lib/format';
import { CACHES_OFF, expectGlibcGrowth } from '../support/audit';
import { runFixture } from '../support/child';
import { describeWith, root, toolModule } from '../support/tools';

const MODULES: string[] = Object.keys(
  require(path.join(root, 'test', 'fixtures', 'survey-modules.cjs')),
);

/** What stands inside a module, by how it can be counted. */
const CLASSES: Record<AllocatorCoverage['mechanism'], string> = {
  callsites: 'its own heap, at its call sites',
  hooks: 'an exported jemalloc',
  stats: 'an exported jemalloc',
  pages: 'a hidden allocator',
  none: 'one that is not counted',
};

interface Report extends Coverage {
  failed: Record<string, string>;
  /** After the first time, with the module's loading in it, and after the second. */
  audits: AuditEntry[][];
}

const survey = (which: string) =>
  runFixture<Report>('survey.cjs', [which], { env: CACHES_OFF, timeout: 60_000 });

const table = new Table({
  head: ['module', 'inside', 'counted by', 'live'],
  style: { head: [], border: [], compact: true },
});

/** The process malloc comes first; what follows came with the modules. */
function expectKnown({ failed, allocators, images, audits }: Report, label: string): void {
  expect(failed, label).toEqual({});
  expect(images.some(({ path: file }) => file.endsWith('.node'))).toBe(true);
  expectGlibcGrowth(audits[0], audits[1], 16, label);
  for (const { mechanism, note, name } of allocators) {
    expect(CLASSES, name).toHaveProperty(mechanism);
    // What is not counted says why.
    if (mechanism === 'none') expect(note, name).not.toBe('');
  }
  for (const { name, holds } of audits[1]?.slice(1) ?? []) {
    expect(holds, `${label}: ${name}`).not.toBe(false);
  }
}

function addToTable(name: string, { allocators }: Report): void {
  const [malloc, ...own] = allocators;
  const rows = own.map((allocator) => [
    CLASSES[allocator.mechanism],
    allocator.mechanism,
    formatSize(Math.max(allocator.live, 0)),
  ]);
  if (rows.length === 0) {
    rows.push(['the process malloc', malloc?.mechanism ?? '', formatSize(malloc?.live ?? 0)]);
  }
  for (const row of rows) table.push([name, ...row]);
}

describeWith('popular native modules', toolModule('@rspack/binding'), () => {
  test.each(MODULES)('%s', async (name) => {
    const report = await survey(name);
    expectKnown(report, name);
    addToTable(name, report);
  });

  test('all together in one process', async () => {
    const report = await survey('all');
    expectKnown(report, 'all together');
    const inside = report.allocators.map(({ mechanism }) => mechanism);
    expect(inside[0]).toBe('callsites');
    expect(inside).toContain('hooks');
  });

  afterAll(() => {
    console.log(table.toString());
  });
});
