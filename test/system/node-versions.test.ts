/** The counting tests on every supported Node: their executables import malloc in different ways. */
import { expect, test } from 'vitest';
import { expectDuckDBAgrees, expectGlibcAgrees, type WorkloadReport } from '../support/books';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile, nodeBinary, toolModule } from '../support/tools';

const env = { GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

for (const major of [20, 22, 24, 26]) {
  const node = nodeBinary(major);
  describeWith(`Node ${major}`, node, () => {
    const run = (workload: string, order: string) =>
      runFixture<WorkloadReport & { threads: number }>('audit-workload.cjs', [workload, order], {
        node: node.path,
        nodeArgs: ['--expose-gc'],
        env,
      });

    test.each(['before', 'after'])("DuckDB's jemalloc, counting started %s it", async (order) => {
      const report = await run('duckdb', order);
      expect(report.node).toMatch(new RegExp(`^v${major}\\.`));
      expectDuckDBAgrees(report);
    });

    test('sharp', async () => {
      const report = await run('sharp', 'before');
      expectGlibcAgrees(report, report.threads);
    });

    describeWith('modules of test/tools', toolModule('nodejs-polars'), () => {
      test.each(['sqlite', 'polars', 'lancedb'])('%s', async (workload) => {
        const report = await run(workload, 'before');
        expectGlibcAgrees(report, report.threads);
      });
    });

    describeWith('churn across threads', nativeTestFile('churn.node'), () => {
      test('comes back to the exact byte', async () => {
        const { left } = await runFixture<{ left: number[] }>('churn.cjs', [], {
          node: node.path,
          env,
        });
        expect(left).toEqual([0, 0, 0]);
      });
    });
  });
}
