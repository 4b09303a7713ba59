/** What cannot be counted is said, in words. */
import path from 'node:path';
import { expect, test } from 'vitest';
import type { NotCovered, UncountedLoad } from '../../lib/counting';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

interface Report {
  notCovered: NotCovered[];
  loads: UncountedLoad[];
}

const run = (what: string) => runFixture<Report>('gaps.cjs', [what]);

describeWith('with the native tests built', nativeTestFile('late.node'), () => {
  test('more libraries than there is room for', async () => {
    const { notCovered } = await run('images');
    expect(notCovered).toContainEqual({
      what: expect.stringMatching(/^\d+ loaded libraries$/),
      reason: expect.stringMatching(/room for 1024/),
    });
  });

  test('a system that gives no thread', async () => {
    const { notCovered } = await run('threads');
    expect(notCovered).toContainEqual({
      what: expect.stringMatching(/libraries loaded by native code/),
      reason: expect.stringMatching(/refused the thread/),
    });
  });
});

test('what a module took while a Worker loaded it is told in every isolate', async () => {
  const { loads, notCovered } = await run('isolates');
  const load = loads.find((candidate) => path.basename(candidate.path).startsWith('sharp'));
  expect(load?.bytes).toBeGreaterThan(50_000);
  expect(load?.bytes).toBeLessThan(5_000_000);
  expect(notCovered.some(({ reason }) => reason === 'allocated while it was loaded')).toBe(true);
});
