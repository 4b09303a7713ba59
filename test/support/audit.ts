/** Checks on what `audit()` returned. */
import { expect } from 'vitest';
import type { AuditEntry } from '../../lib/counting';

const KIB = 1024;

/** Without thread caches glibc's statistics are exact but for its chunk headers and arenas. */
export const CACHES_OFF = { GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

function glibcEntry(audit: AuditEntry[] | undefined): AuditEntry {
  const entry = audit?.find(({ name }) => name === 'malloc (glibc)');
  if (entry === undefined) throw new Error('glibc is not in the audit');
  expect(entry.mechanism).toBe('callsites');
  return entry;
}

const bound = (arenas: number) => 16 * KIB + arenas * 4 * KIB;

/**
 * glibc's books agree within 16 KiB and 4 KiB for each of `arenas`: they outlive the threads they
 * were made for. For a process whose thread caches are off.
 */
export function expectGlibcClean(audit: AuditEntry[], arenas: number, label = ''): void {
  const { difference = Number.NaN } = glibcEntry(audit);
  expect(Math.abs(difference), label).toBeLessThanOrEqual(bound(arenas));
}

/** The same for what was allocated since `before`: a module's constructors run before it is seen. */
export function expectGlibcGrowth(
  before: AuditEntry[] | undefined,
  after: AuditEntry[] | undefined,
  arenas: number,
  label = '',
): void {
  const [from, to] = [before, after].map((audit) => glibcEntry(audit).difference ?? Number.NaN);
  expect(Math.abs((to as number) - (from as number)), label).toBeLessThanOrEqual(bound(arenas));
}
