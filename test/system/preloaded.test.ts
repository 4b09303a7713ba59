/** Under preloaded allocators counted live grows by what the allocator's own statistics grow by. */
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

/** Since the module was loaded: its constructors ran before its image could be patched. */
function expectGrowthAgrees(report: WorkloadReport, name: string, mechanism: string): void {
  const [first, ...rest] = report.steps;
  const start = malloc(first?.audit ?? [])?.difference ?? Number.NaN;
  expect(rest.length).toBeGreaterThan(1);
  for (const { label, audit } of rest) {
    const entry = malloc(audit);
    expect(entry).toMatchObject({ name: `malloc (${name})`, mechanism });
    const drift = (entry?.difference ?? Number.NaN) - start;
    expect(Math.abs(drift), label).toBeLessThanOrEqual(BOUND);
    for (const other of audit.slice(1)) expect(other.holds, other.name).toBe(true);
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
      expectGrowthAgrees(await run(jemalloc.name, workload, 'auto'), 'jemalloc', 'callsites');
    });

    test.each(workloads)('%s, by hooks', async (workload) => {
      expectGrowthAgrees(await run(jemalloc.name, workload, 'hooks'), 'jemalloc', 'hooks');
    });

    // What was sampled is behind while things move.
    test.each(workloads)('%s, by statistics, once it is still', async (workload) => {
      const { steps } = await run(jemalloc.name, workload, 'stats');
      const entry = malloc(steps.at(-1)?.audit ?? []);
      expect(entry).toMatchObject({ name: 'malloc (jemalloc)', mechanism: 'stats' });
      expect(Math.abs(entry?.difference ?? Number.NaN)).toBeLessThanOrEqual(BOUND);
    });
  });
});

describeWith('preloaded tcmalloc', tcmalloc, () => {
  describeModules((workloads) => {
    test.each(workloads)('%s', async (workload) => {
      expectGrowthAgrees(await run(tcmalloc.name, workload, 'auto'), 'tcmalloc', 'callsites');
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
          rounds: { held: number; counted: number; left: number }[];
        }>('known-allocations.cjs', [], { env: env(library.name) });
        expect(report).toMatchObject({ name: `malloc (${name})`, mechanism: 'callsites' });
        for (const { held, counted, left } of report.rounds) {
          expect(Math.abs(counted - held) / held).toBeLessThan(0.01);
          expect(Math.abs(left)).toBeLessThan(BOUND);
        }
      });
    });
  });
}
