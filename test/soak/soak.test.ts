/**
 * Everything at once, and the books right at the end. OOM_GUARD_SOAK_SECONDS says for how long: half a
 * minute where all tests are asked for, 600 by hand.
 */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../lib/counting';
import { CACHES_OFF, expectGlibcGrowth } from '../support/audit';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile, toolModule } from '../support/tools';

const MiB = 2 ** 20;

const asked = process.env.OOM_GUARD_SOAK_SECONDS;
const all = process.env.OOM_GUARD_TEST_ALL === '1';
const seconds = Number(asked ?? 30);

interface Report {
  rounds: Record<string, number>;
  crossings: number;
  peak: number;
  isolates: number;
  before: AuditEntry[];
  after: AuditEntry[];
}

const wanted = {
  name: 'OOM_GUARD_SOAK_SECONDS',
  available: asked !== undefined || all,
  why: 'it takes long',
};

describeWith('soak', wanted, () => {
  describeWith('with modules of test/tools', toolModule('nodejs-polars'), () => {
    describeWith('and the native tests built', nativeTestFile('storm.node'), () => {
      test(
        `${seconds} s of modules, Workers and libraries that come and go`,
        async () => {
          const report = await runFixture<Report>('soak.cjs', [String(seconds)], {
            nodeArgs: ['--expose-gc'],
            env: CACHES_OFF,
            timeout: (2 * seconds + 120) * 1000,
          });
          const { rounds, crossings, peak, isolates, before, after } = report;
          console.log(JSON.stringify({ rounds, crossings, peakMiB: Math.round(peak / MiB) }));
          for (const [name, times] of Object.entries(rounds)) {
            expect(times, name).toBeGreaterThan(0);
          }
          expect(crossings).toBeGreaterThan(0);
          expect(peak).toBeGreaterThan(100 * MiB);
          expect(isolates).toBe(1);
          expectGlibcGrowth(before, after, 16);
          const duckdb = after.find(({ name }) => name.includes('duckdb_je_'));
          expect(duckdb).toMatchObject({ mechanism: 'hooks', holds: true });
        },
        (2 * seconds + 150) * 1000,
      );
    });
  });
});
