/** Two copies of the package, of two versions: one counter, whichever started first. */
import { expect, test } from 'vitest';
import { CACHES_OFF } from '../support/audit';
import { runFixture } from '../support/child';
import { packageCopy } from '../support/package';

const KIB = 1024;

interface Look {
  live: number;
  isolates: number;
  allocators: number;
  difference: number;
  holds: boolean;
}

interface Report {
  before: [Look, Look];
  after: [Look, Look];
  held: number;
  last: Look;
  addons: number;
}

const copies = { older: packageCopy('0.0.1'), newer: packageCopy('9.0.0') };

const run = (...args: string[]) => runFixture<Report>('two-copies.cjs', args, { env: CACHES_OFF });

function expectOneCounter({ before, after, held, addons }: Report): void {
  expect(addons).toBe(2);
  for (const [one, other] of [before, after]) {
    // Looking takes memory itself, the first time in a Worker most.
    expect(Math.abs(one.live - other.live)).toBeLessThan(512 * KIB);
    expect([one.holds, other.holds]).toEqual([true, true]);
    expect(other.allocators).toBe(one.allocators);
    expect(other.isolates).toBe(one.isolates);
  }
  for (const copy of [0, 1] as const) {
    const grown = after[copy].live - before[copy].live;
    // A starting Worker still gives some of its own back.
    expect(Math.abs(grown - held) / held).toBeLessThan(0.02);
    expect(Math.abs(after[copy].difference - before[copy].difference)).toBeLessThan(8 * KIB);
  }
}

test.each([
  ['older', 'newer'],
  ['newer', 'older'],
] as const)('the %s first, then the %s beside it', async (first, second) => {
  const report = await run(copies[first], copies[second]);
  expectOneCounter(report);
  // One heap, which both copies publish.
  expect(report.last.isolates).toBe(1);
});

test.each([
  ['older', 'newer'],
  ['newer', 'older'],
] as const)('the %s first, then the %s in a Worker that ends', async (first, second) => {
  const report = await run(copies[first], copies[second], 'worker');
  expectOneCounter(report);
  expect(report.after[0].isolates).toBe(2);
  expect(report.last.isolates).toBe(1);
});
