/** A Worker that is ended in the middle of a call of the addon ends, and nothing else does. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';

test('whichever call it is', async () => {
  const counts = await runFixture<Record<string, number>>('ended-in-calls.cjs');
  expect(Object.keys(counts)).toEqual(expect.arrayContaining(['start', 'shards', 'loading']));
  expect(Object.keys(counts).length).toBeGreaterThan(25);
}, 120_000);
