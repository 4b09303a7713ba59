/** `oom-guard/duckdb` with a real DuckDB. */
import { beforeAll, expect, test } from 'vitest';
import type { DuckDBGovernorStats } from '../../lib/integrations/duckdb';
import { runFixture } from '../support/child';

const MiB = 2 ** 20;

interface Report {
  original: string;
  temp: boolean;
  first: number;
  beside: { limit: number; setting: string };
  after: number;
  tags: string[];
  printed: string;
  reserved: number;
  aborted: string;
  abortMs: number;
  abortedAtOnce: string;
  usable: number;
  refused: { exhausted: boolean; source: string; cause: string };
  usableAgain: number;
  shed: { source: string; consumer: string; cause: string; ms: number };
  usableAtLast: number;
  stats: DuckDBGovernorStats;
  restored: string;
  left: number;
  breakdowns: number;
}

let report: Report;

beforeAll(async () => {
  report = await runFixture<Report>('duckdb-guarded.cjs', []);
}, 60_000);

test('memory_limit follows what the rest of the process leaves', () => {
  expect(report.first).toBe(300 * MiB);
  expect(report.beside.limit).toBeLessThan(190 * MiB);
  expect(report.beside.limit).toBeGreaterThanOrEqual(64 * MiB);
  expect(report.beside.setting).toMatch(/^1\d\d\.\d MiB$/);
  expect(report.after).toBe(300 * MiB);
  expect(report.stats.raised).toBeGreaterThan(0);
  expect(report.stats.lowered).toBeGreaterThan(0);
});

test('what DuckDB holds is in the books and in memory()', () => {
  expect(report.tags).toContain('IN_MEMORY_TABLE');
  expect(report.printed).toMatch(/IN_MEMORY_TABLE.*MiB.*duckdb/);
  expect(report.reserved).toBeGreaterThan(20 * MiB);
});

test('a signal stops a query, also one that has not begun, and the connection lives', () => {
  expect(report.aborted).toBe('enough');
  expect(report.abortMs).toBeLessThan(500);
  expect(report.abortedAtOnce).toBe('at once');
  expect(report.usable).toBe(3_000_000);
});

test("DuckDB's out of memory is ResourcesExhaustedError, and the connection lives", () => {
  expect(report.refused).toEqual({
    exhausted: true,
    source: 'duckdb',
    cause: 'Out of Memory Error:',
  });
  expect(report.usableAgain).toBe(3_000_000);
});

test('a query is stopped inside when its task is shed', () => {
  const { ms, ...shed } = report.shed;
  expect(shed).toEqual({ source: 'breaker', consumer: 'long query', cause: 'INTERRUPT' });
  expect(ms).toBeLessThan(1000);
  expect(report.usableAtLast).toBe(3_000_000);
});

test('closing gives everything back', () => {
  expect(report.restored).toBe(report.original);
  expect([report.left, report.breakdowns]).toEqual([0, 0]);
  expect(report.temp).toBe(true);
});
