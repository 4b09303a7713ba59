/** Under preloaded allocators counted live is what the allocator's own statistics say. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import type { WorkloadReport } from '../support/books';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile, preloadable, toolModule } from '../support/tools';

const KIB = 1024;
const BOUND = 64 * KIB;

const env = (LD_PRELOAD: string) => ({ LD_PRELOAD, GLIBC_TUNABLES: '' });

const jemalloc = preloadable('libjemalloc.so.2', 'libjemalloc2');
const tcmalloc = preloadable('libtcmalloc_minimal.so.4', 'libtcmalloc-minimal4');
const mimalloc = preloadable('libmimalloc.so.2.0', 'libmimalloc2.0');

const malloc = (audit: AuditEntry[]) => audit.find(({ name }) => name.startsWith('malloc'));

/** At every step, and although a module's constructors run before its image can be patched. */
function expectAuditHolds(report: WorkloadReport, name: string, mechanism: string): void {
  expect(report.steps.length).toBeGreaterThan(2);
  for (const { label, audit } of report.steps) {
    const entry = malloc(audit);
    expect(entry).toMatchObject({ name: `malloc (${name})`, mechanism, bound: BOUND });
    const { difference = Number.NaN, uncounted = 0 } = entry ?? {};
    // With what loads took uncounted or without: that is an estimate.
    const least = Math.min(Math.abs(difference), Math.abs(difference - uncounted));
    expect(least, label).toBeLessThanOrEqual(BOUND);
    for (const { holds, name: audited } of audit) expect(holds, `${label}: ${audited}`).toBe(true);
  }
}

const describeModules = (body: (workloads: string[]) => void) => {
  body(['duckdb', 'sharp']);
  describeWith('modules of test/tools', toolModule('nodejs-polars'), () =>
    body(['sqlite', 'polars', 'lancedb']),
  );
};

const run = (preload: string, workload: string, choice: string) =>
  runFixture<WorkloadReport>('audit-workload.cjs', [workload, 'before', choice], {
    nodeArgs: ['--expose-gc'],
    env: env(preload),
  });

describeWith('preloaded jemalloc', jemalloc, () => {
  describeModules((workloads) => {
    test.each(workloads)('%s, at call sites by default', async (workload) => {
      expectAuditHolds(await run(jemalloc.name, workload, 'auto'), 'jemalloc', 'callsites');
    });

    test.each(workloads)('%s, by hooks', async (workload) => {
      expectAuditHolds(await run(jemalloc.name, workload, 'hooks'), 'jemalloc', 'hooks');
    });

    test.each(workloads)('%s, by statistics', async (workload) => {
      expectAuditHolds(await run(jemalloc.name, workload, 'stats'), 'jemalloc', 'stats');
    });
  });

  test('what is sampled is not compared with what has moved since', async () => {
    const audits = await runFixture<AuditEntry[][]>('audit-moving.cjs', [], {
      env: env(jemalloc.name),
    });
    expect(audits).toHaveLength(20);
    for (const entries of audits) {
      expect(malloc(entries)).toMatchObject({ mechanism: 'stats', holds: true });
    }
  });

  test('its heap profiler shifts its statistics, and the audit says so', async () => {
    const { steps } = await runFixture<WorkloadReport>(
      'audit-workload.cjs',
      ['sharp', 'before', 'auto'],
      {
        nodeArgs: ['--expose-gc'],
        env: { ...env(jemalloc.name), MALLOC_CONF: 'prof:true,lg_prof_sample:14' },
      },
    );
    const entry = malloc(steps.at(-1)?.audit ?? []);
    expect(entry?.difference).toBeGreaterThan(BOUND);
    expect(entry?.holds).toBe(true);
    expect(entry?.note).toMatch(/opt\.prof/);
  });
});

describeWith('preloaded tcmalloc', tcmalloc, () => {
  describeModules((workloads) => {
    test.each(workloads)('%s', async (workload) => {
      expectAuditHolds(await run(tcmalloc.name, workload, 'auto'), 'tcmalloc', 'callsites');
    });
  });
});

// mimalloc has no statistics to compare with: a program that knows what it holds.
for (const [library, name] of [
  [mimalloc, 'mimalloc'],
  [jemalloc, 'jemalloc'],
  [tcmalloc, 'tcmalloc'],
] as const) {
  describeWith(`preloaded ${name}, known blocks`, library, () => {
    describeWith('with the native tests built', nativeTestFile('storm.node'), () => {
      test('are on the books within 1 %, and off them when freed', async () => {
        const report = await runFixture<{
          name: string;
          mechanism: string;
          rounds: { held: number; counted: number; left: number; allLeft: number[] }[];
        }>('known-allocations.cjs', [], { env: env(library.name) });
        expect(report).toMatchObject({ name: `malloc (${name})`, mechanism: 'callsites' });
        for (const { held, counted, left, allLeft } of report.rounds) {
          expect(Math.abs(counted - held) / held, `${held} held`).toBeLessThan(0.01);
          expect(Math.abs(left), `${held} held, left ${allLeft}`).toBeLessThan(BOUND);
        }
      });
    });
  });
}
