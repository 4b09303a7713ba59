/** OOM_GUARD_NO_PATCHING: no import slot is written; what needs none is counted all the same. */
import { expect, test } from 'vitest';
import type { AuditEntry, Coverage } from '../../lib/counting';
import { runFixture } from '../support/child';

interface Report extends Coverage {
  slots: { before: Record<string, string>; after: Record<string, string> };
  patched: number;
  table: number;
  audit: AuditEntry[];
}

const run = (OOM_GUARD_NO_PATCHING: string) =>
  runFixture<Report>('no-patching.cjs', [], { env: { OOM_GUARD_NO_PATCHING } });

test('switched off, no slot changes, and the coverage says why malloc is not counted', async () => {
  const { slots, patched, allocators, notCovered, table, audit } = await run('1');
  expect(Object.keys(slots.before)).not.toHaveLength(0);
  expect(slots.after).toEqual(slots.before);
  expect(patched).toBe(0);
  expect(allocators[0]).toMatchObject({ mechanism: 'none', live: 0 });
  expect(notCovered).toContainEqual({
    what: 'malloc (glibc)',
    reason: 'patching is switched off by the environment',
  });
  // DuckDB's jemalloc has hooks of its own.
  const duckdb = audit.find(({ name }) => name.includes('duckdb_je_'));
  expect(duckdb).toMatchObject({ mechanism: 'hooks', holds: true });
  expect(duckdb?.live.after).toBeGreaterThan(40e6);
  expect(table).toBeGreaterThan(40e6);
});

test.each(['', '0'])("OOM_GUARD_NO_PATCHING='%s' patches", async (value) => {
  const { slots, patched, allocators } = await run(value);
  expect(slots.after).not.toEqual(slots.before);
  expect(patched).toBeGreaterThan(0);
  expect(allocators[0]).toMatchObject({ mechanism: 'callsites' });
});
