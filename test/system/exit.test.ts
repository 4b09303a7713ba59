/** process.exit in every state of the package's life: the code is kept, nothing hangs or crashes. */
import path from 'node:path';
import { expect, test } from 'vitest';
import { type Ended, runNode } from '../support/run-node';
import { root } from '../support/tools';

const ROUNDS = 20;
const AT_ONCE = 4;
/** A hang would last until the timer of something is due; an exit under load takes far less. */
const LIMIT_MS = 10_000;

const fixture = path.join(root, 'test', 'fixtures', 'exits.cjs');

/** A quarter exits at once, the rest after 1 to 15 ms. */
const exit = async (state: string, round: number): Promise<Ended & { took: number }> => {
  const start = Date.now();
  const ended = await runNode([fixture, state, String(round % 4 === 0 ? 0 : (round * 3) % 16)]);
  return { ...ended, took: ended.at - start };
};

test.each([
  'before start',
  'right after start',
  'with a watchdog and watches',
  'inside guard.run',
  'with a pending grow',
  'while free memory is released',
  'of a Worker that has all of it',
  'under the feet of Workers',
])('%s', async (state) => {
  for (let round = 0; round < ROUNDS; round += AT_ONCE) {
    const exits = Array.from({ length: AT_ONCE }, (_, i) => exit(state, round + i));
    for (const { code, stdout, stderr, took } of await Promise.all(exits)) {
      expect({ code, stdout, stderr }).toEqual({ code: 7, stdout: '', stderr: '' });
      expect(took).toBeLessThan(LIMIT_MS);
    }
  }
});
