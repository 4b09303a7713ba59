/** What test/fixtures/audit-workload.cjs prints, and the checks of the design's oracles on it. */
import { expect } from 'vitest';
import type { AuditEntry } from '../../lib/counting';

export interface WorkloadReport {
  node: string;
  steps: { label: string; audit: AuditEntry[]; duckdbMemory?: number }[];
}

const KIB = 1024;

/** Oracle less counted; positive when the count is too low. */
function gap(entry: AuditEntry): number {
  if (entry.oracle === undefined) throw new Error(`${entry.name} has no oracle`);
  return entry.oracle - entry.live.after;
}

function find(audit: AuditEntry[], part: string): AuditEntry {
  const entry = audit.find((candidate) => candidate.name.includes(part));
  if (entry === undefined) throw new Error(`no allocator ${part}`);
  return entry;
}

/**
 * Growth since the module was loaded agrees with glibc's statistics, thread caches off, within
 * 16 KiB plus 4 KiB for each arena that may have been made since: one a thread, at most eight a core.
 */
export function expectGlibcAgrees(report: WorkloadReport, arenas: number): void {
  const [first, ...rest] = report.steps;
  if (first === undefined || rest.length === 0) throw new Error('no steps');
  const start = gap(find(first.audit, 'malloc (glibc)'));
  for (const step of rest) {
    const drift = gap(find(step.audit, 'malloc (glibc)')) - start;
    expect(Math.abs(drift), `${report.node} ${step.label}`).toBeLessThanOrEqual(
      16 * KIB + arenas * 4 * KIB,
    );
  }
}

/** DuckDB's own jemalloc: counted live is its oracle's figure within 64 KiB at every step. */
export function expectDuckDBAgrees(report: WorkloadReport): void {
  const books = (label: string) => {
    const step = report.steps.find((candidate) => candidate.label === label);
    if (step === undefined) throw new Error(`no step ${label}`);
    return { entry: find(step.audit, 'duckdb_je_'), reported: step.duckdbMemory ?? 0 };
  };
  for (const { label } of report.steps) {
    const { entry } = books(label);
    expect(entry.mechanism).toBe('hooks');
    expect(Math.abs(gap(entry)), `${report.node} ${label}`).toBeLessThanOrEqual(64 * KIB);
  }
  const start = books('connected').entry.live.after;
  for (const label of ['table', 'queried']) {
    const { entry, reported } = books(label);
    expect(reported).toBeGreaterThan(100e6);
    expect(Math.abs(entry.live.after - reported) / reported).toBeLessThan(0.03);
  }
  expect(books('dropped').entry.live.after - start).toBeLessThan(3e6);
}
