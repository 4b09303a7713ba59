/** Workers that load the package, start it and end. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import { CACHES_OFF, expectGlibcClean } from '../support/audit';
import { runFixture } from '../support/child';

const MiB = 2 ** 20;

const run = <T>(scenario: string) =>
  runFixture<T>('worker-lifetimes.cjs', [scenario], { env: CACHES_OFF });

interface OnlyInAWorker {
  inWorker: { isolates: number; live: number; held: number };
  joined: number;
  held: number;
  grown: number;
  more: number;
  isolates: number;
  allocators: unknown[];
  audit: AuditEntry[];
}

test('started only in a Worker that ends: counting goes on, and the main thread joins it', async () => {
  const report = await run<OnlyInAWorker>('only-in-a-worker');
  expect(report.inWorker.isolates).toBe(1);
  expect(report.inWorker.live).toBeGreaterThan(report.inWorker.held * MiB);
  expect(report.joined).toBeGreaterThan(report.held);
  expect(report.grown).toBeGreaterThanOrEqual(report.more);
  expect(report.grown).toBeLessThan(1.02 * report.more);
  expect(report.isolates).toBe(1);
  expect(report.allocators).toHaveLength(1);
  expectGlibcClean(report.audit, 8);
});

interface Many {
  highest: number;
  workers: number;
  isolates: number;
  threads: { before: number; after: number };
  audit: AuditEntry[];
}

test.each([
  ['one-by-one', 2, 2],
  ['at-once', 6, 21],
])('100 Workers, %s: their heaps leave the sum, no thread stays', async (order, least, most) => {
  const report = await run<Many>(order);
  expect(report.workers).toBe(100);
  expect(report.highest).toBeGreaterThanOrEqual(least);
  expect(report.highest).toBeLessThanOrEqual(most);
  expect(report.isolates).toBe(1);
  expect(report.threads.after).toBeLessThanOrEqual(report.threads.before);
  expectGlibcClean(report.audit, 16);
});
