/** Native memory held by garbage is found before anybody has to spill. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, toolModule } from '../support/tools';

interface Report {
  filledMB: number;
  usageMB: number;
  refusedAtFirst: boolean;
  refusals: number;
  granted: boolean;
  reclaims: { kind: string; ms: number }[];
  spilled: number;
}

describeWith('20 dropped polars frames', toolModule('nodejs-polars'), () => {
  test('fill the limit: grow is granted after one collection and one turn', async () => {
    const report = await runFixture<Report>('polars-pool.cjs');
    expect(report.filledMB).toBeGreaterThan(300);
    expect(report).toMatchObject({ refusedAtFirst: true, granted: true, refusals: 0, spilled: 0 });
    expect(report.reclaims.map(({ kind }) => kind)).toEqual(['garbage']);
    expect(report.usageMB).toBeLessThan(20);
  });
});
