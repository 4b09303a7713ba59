/** An allocator hidden inside an image (snappy's mimalloc), counted by its resident pages. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, toolModule } from '../support/tools';

interface Step {
  held: number;
  pages: number;
}

interface Report {
  name: string;
  intact: boolean;
  before: number;
  afterCompress: Step;
  afterRestore: Step;
  dropped: number;
  backAfterMs: number;
}

const MB = 1e6;

describeWith('snappy', toolModule('snappy'), () => {
  test('what it holds is seen, and seen to go', async () => {
    const report = await runFixture<Report>('snappy-pages.cjs', [], { nodeArgs: ['--expose-gc'] });
    expect(report.name).toContain('mimalloc');
    expect(report.intact).toBe(true);
    for (const { held, pages } of [report.afterCompress, report.afterRestore]) {
      expect(held).toBeGreaterThan(50 * MB);
      expect(Math.abs(pages - held)).toBeLessThan(5 * MB);
    }
    expect(report.dropped).toBeLessThan(report.before + 10 * MB);
    expect(report.backAfterMs).toBeLessThan(1000);
  });
});
