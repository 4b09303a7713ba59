/**
 * ld.so allocates and frees for itself, on Node 26 through Node's own functions in one direction
 * only: without a rule for it 1,000 loads book -1.5 MB and 6,400 threads -1.9 MB.
 */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile, nodeBinary } from '../support/tools';

const KIB = 1024;

interface Books {
  live: number;
  audit: AuditEntry[];
}

interface Report {
  node: string;
  done: boolean | number;
  grown: number;
  before: Books;
  after: Books;
  rescans: number;
  allocations: number;
}

const gap = ({ audit }: Books) => audit[0]?.difference ?? Number.NaN;

for (const major of [20, 26]) {
  const node = nodeBinary(major);
  const run = (work: string) =>
    runFixture<Report>('loader-frees.cjs', [work], {
      node: node.path,
      env: { GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' },
    });

  describeWith(`Node ${major}`, node, () => {
    describeWith('with the native tests built', nativeTestFile('storm.node'), () => {
      test.each([
        ['dlopen', true],
        ['threads', 6400],
      ])('%s: what ld.so frees is not booked one-sidedly', async (work, done) => {
        const report = await run(work);
        expect(report.node).toMatch(new RegExp(`^v${major}\\.`));
        expect(report.done).toBe(done);
        expect(Math.abs(report.grown)).toBeLessThan(8 * KIB);
        expect(Math.abs(gap(report.after) - gap(report.before))).toBeLessThan(8 * KIB);
      });

      test('a large library bound at once, loaded while it is looked for every ms', async () => {
        const report = await run('large');
        expect(report.done).toBe(true);
        expect(report.rescans).toBeGreaterThan(20);
        expect(report.allocations).toBeGreaterThan(1000);
        expect(report.before.audit[0]?.holds).toBe(true);
        expect(Math.abs(gap(report.after) - gap(report.before))).toBeLessThan(8 * KIB);
      });
    });
  });
}
