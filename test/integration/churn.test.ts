/** 16 threads, blocks freed by other threads than allocated them, inside this Node. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

describeWith('churn across threads', nativeTestFile('churn.node'), () => {
  test('comes back to the exact byte', async () => {
    const { left, counted } = await runFixture<{ left: number[]; counted: number }>(
      'churn.cjs',
      [],
      {
        env: { GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' },
      },
    );
    expect(counted).toBeGreaterThan(3 * 16 * 1e6 * 300);
    expect(left).toEqual([0, 0, 0]);
  });
});
