/** Images that are loaded after counting began are counted without anyone calling anything. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

describeWith('a library that native code loads', nativeTestFile('late.node'), () => {
  test('is counted within a tick', async () => {
    const { counted, held } = await runFixture<{ counted: number; held: number }>('late-image.cjs');
    expect(counted).toBeGreaterThanOrEqual(held);
    expect(counted).toBeLessThan(held * 1.01);
  });
});
