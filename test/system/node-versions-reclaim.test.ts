/**
 * V8 frees the memory of dropped Buffers on a thread of its own and when it likes; each version does
 * it differently. `collectGarbage` promises that it has happened when it returns.
 */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nodeBinary } from '../support/tools';

interface Report {
  node: string;
  rounds: { held: number; arrayBuffers: number; live: number }[];
  gcLeftBehind: string;
}

const MiB = 2 ** 20;

for (const major of [20, 22, 24, 26]) {
  const node = nodeBinary(major);
  describeWith(`Node ${major}`, node, () => {
    test('dropped Buffers are freed when collectGarbage() returns', async () => {
      const report = await runFixture<Report>('dropped-buffers.cjs', [], { node: node.path });
      expect(report.node).toMatch(new RegExp(`^v${major}\\.`));
      expect(report.rounds).toHaveLength(5);
      for (const { held, arrayBuffers, live } of report.rounds) {
        expect(held).toBeGreaterThan(63 * MiB);
        expect(arrayBuffers).toBeLessThan(MiB);
        expect(live).toBeLessThan(MiB);
      }
      expect(report.gcLeftBehind).toBe('undefined');
    });
  });
}
