/** Counted live bytes against the allocators' own statistics, over real modules, on this Node. */
import os from 'node:os';
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import { expectDuckDBAgrees, expectGlibcAgrees, type WorkloadReport } from '../support/books';
import { runFixture } from '../support/child';
import { describeWith, toolModule } from '../support/tools';

const CACHES_OFF = { GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

const run = (workload: string, order: 'before' | 'after') =>
  runFixture<WorkloadReport & { threads: number }>('audit-workload.cjs', [workload, order], {
    nodeArgs: ['--expose-gc'],
    env: CACHES_OFF,
  });

test.each(['before', 'after'] as const)(
  "DuckDB's jemalloc, counting started %s it",
  async (order) => {
    expectDuckDBAgrees(await run('duckdb', order));
  },
);

test.each(['before', 'after'] as const)('sharp, counting started %s it', async (order) => {
  const report = await run('sharp', order);
  expectGlibcAgrees(report, report.threads);
  // What its constructors allocated uncounted is part of the comparison.
  for (const { label, audit } of report.steps) expect(audit[0]?.holds, label).toBe(true);
  // Arenas stay when the threads end that they were made for: as many as glibc ever makes.
  expect(report.steps[0]?.audit[0]?.bound).toBe(1024 * (16 + 4 * 8 * os.cpus().length));
});

describeWith('modules of test/tools', toolModule('nodejs-polars'), () => {
  test.each(['sqlite', 'polars', 'lancedb'])('%s', async (workload) => {
    const report = await run(workload, 'before');
    expectGlibcAgrees(report, report.threads);
  });
});

test('audit holds with thread caches on, and says how much they blur it', async () => {
  const report = await runFixture<WorkloadReport>('audit-workload.cjs', ['sharp', 'after'], {
    nodeArgs: ['--expose-gc'],
    env: { GLIBC_TUNABLES: '' },
  });
  const last = report.steps.at(-1)?.audit[0] as AuditEntry;
  expect(last.holds).toBe(true);
  expect(last.note).toMatch(/thread caches/);
});
