/** glibc's tunables change how its blocks are made: the books agree with its statistics all the same. */
import { expect, test } from 'vitest';
import { expectGlibcAgrees, type WorkloadReport } from '../support/books';
import { runFixture } from '../support/child';

test.each([
  'tcache_count=0',
  'hugetlb=1',
  'perturb=165',
  'mmap_threshold=65536',
  'hugetlb=1:glibc.malloc.perturb=165:glibc.malloc.mmap_threshold=65536',
])('%s, over sharp', async (tunable) => {
  const report = await runFixture<WorkloadReport & { threads: number }>(
    'audit-workload.cjs',
    ['sharp', 'before'],
    {
      nodeArgs: ['--expose-gc'],
      env: { GLIBC_TUNABLES: `glibc.malloc.tcache_count=0:glibc.malloc.${tunable}` },
    },
  );
  expectGlibcAgrees(report, report.threads);
  expect(report.steps.every(({ audit }) => audit[0]?.mechanism === 'callsites')).toBe(true);
});
