/** A process or a Worker that ends with watches open: no crash, no hang, on any Node. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nodeBinary } from '../support/tools';

for (const major of [20, 22, 24, 26]) {
  const node = nodeBinary(major);
  describeWith(`Node ${major}`, node, () => {
    test.each([
      ['1', 'return'],
      ['3', 'return'],
      ['3', 'exit'],
      ['1', 'worker'],
      ['3', 'worker'],
    ])('%s open, by %s', async (count, end) => {
      const report = await runFixture('open-watches.cjs', [count, end], {
        node: node.path,
        timeout: 20_000,
      });
      expect(report).toEqual({ ended: true });
    });
  });
}
