/** Asking for memory leaves no garbage behind: it is asked for when memory is short. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';

const CALLS = 1_000_000;

test('tryGrow allocates nothing, granted or refused', async () => {
  const report = await runFixture<Record<string, number[]>>('pool-garbage.cjs', [], {
    // Room for all of it, so that no collection hides any.
    nodeArgs: ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'],
  });
  // That it would be seen.
  expect(Math.max(...(report.allocating as number[])) / CALLS).toBeGreaterThan(5);
  for (const name of ['granted', 'grantedInHeap', 'grantedToSpillable', 'refused']) {
    // Bytes a call, of the median round: a part of V8's own may fall into one of them.
    const sorted = [...(report[name] as number[])].sort((a, b) => a - b);
    expect(Math.abs(sorted[sorted.length >> 1] as number) / CALLS, name).toBeLessThan(0.001);
  }
});
