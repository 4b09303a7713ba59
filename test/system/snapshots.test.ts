/** Snapshots of every kind while native threads and Workers allocate. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import { CACHES_OFF, expectGlibcClean } from '../support/audit';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

interface Report {
  seen: { memory: number; ledger: number; audit: number; isolates: number };
  uneven: number;
  backwards: number;
  unsound: number;
  allocated: number;
  allocations: number;
  turns: number[];
  live: { lowest: number; highest: number };
  left: number;
  audit: AuditEntry[];
}

describeWith('while 8 threads and 4 Workers allocate', nativeTestFile('storm.node'), () => {
  test('memory(), ledger() and audit() stay sound, and the books are right afterwards', async () => {
    const report = await runFixture<Report>('snapshots.cjs', [], { env: CACHES_OFF });
    const { seen, live } = report;
    expect(seen.isolates).toBe(5);
    expect(seen.memory).toBeGreaterThanOrEqual(50);
    expect(Math.min(seen.ledger, seen.audit)).toBeGreaterThan(0);
    // Lines that do not add up, totals that fell, numbers that cannot be.
    expect(report).toMatchObject({ uneven: 0, backwards: 0, unsound: 0 });
    expect(report.allocations).toBeGreaterThan(1e6);
    expect(report.allocated).toBeGreaterThan(report.allocations * 1000);
    expect(Math.min(...report.turns)).toBeGreaterThan(10);
    // MiB. What all of them together can hold is some tens.
    expect(live.lowest).toBeGreaterThan(1);
    expect(live.highest).toBeLessThan(500);
    expect(report.left).toBeLessThan(50);
    expectGlibcClean(report.audit, 16);
  });
});
