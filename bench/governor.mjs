// npm run bench -- governor [runs]: a DuckDB query that needs 2 GB, beside JavaScript that grows to
// 300 MB and back three times, in a 700 MB container: governed and bare. How often it ends well, and
// how else. Needs root (memory cgroups) and a build.
import { createRequire } from 'node:module';
import { KILLED, runContained } from './support/contained.mjs';

const LIMIT = 700e6;
const SCRIPT = 'duckdb-governor.cjs';
const { kernelLimitsAvailable } = createRequire(import.meta.url)('../dist/cli/kernel-limit.js');

const megabytes = (bytes) => (bytes === undefined ? null : Math.round(bytes / 1e5) / 10);

async function series(runs, mode, expected) {
  const all = [];
  for (let i = 0; i < runs; i++) {
    const { exit, chargedBytes, phases } = await runContained(LIMIT, SCRIPT, [mode]);
    const { done, failed } = phases;
    const right = exit === 0 && String(done?.answer) === expected && done.cache.same;
    all.push({
      right,
      exit,
      chargedMB: megabytes(chargedBytes),
      seconds: done === undefined ? null : Math.round(done.seconds * 10) / 10,
      failed: failed?.message ?? null,
      cache: done?.cache ?? null,
      governor: done?.stats ?? null,
      guard: done?.guard ?? null,
    });
  }
  return {
    right: all.filter((run) => run.right).length,
    killed: all.filter(({ exit }) => exit === KILLED).length,
    failed: all.filter((run) => !run.right && run.exit !== KILLED).length,
    runs: all,
  };
}

/** What the query gives where there is memory enough. */
async function answer() {
  const { exit, phases } = await runContained(6e9, SCRIPT, ['bare']);
  if (exit !== 0) throw new Error(`the reference run ended with ${exit}`);
  return String(phases.done.answer);
}

export default async function governor([runs = '20', only = 'both']) {
  const count = Number(runs);
  if (!Number.isSafeInteger(count) || count < 1) throw new RangeError(`runs: ${runs}`);
  const support = kernelLimitsAvailable();
  if (!support.available) throw new Error(support.reason);
  const expected = await answer();
  return {
    bench: 'governor',
    node: process.version,
    limitMB: megabytes(LIMIT),
    runs: count,
    expected,
    ...(only === 'bare' ? {} : { governed: await series(count, 'governed', expected) }),
    ...(only === 'governed' ? {} : { bare: await series(count, 'bare', expected) }),
  };
}
