// npm run bench -- ledger: resident memory line by line in five unlike programs, what is left
// unexplained of it, and what the ledger took. Needs a build, sharp, DuckDB and test/tools.
import { execFileSync } from 'node:child_process';
import path from 'node:path';

const program = path.join(import.meta.dirname, '..', 'test', 'fixtures', 'ledger-programs.cjs');
const PROGRAMS = ['bare', 'heap', 'sharp', 'duckdb', 'polars'];

const megabytes = (bytes) => Math.round(bytes / 1e4) / 100;

function measure(name) {
  const output = execFileSync(process.execPath, [program, name], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '' },
    maxBuffer: 64 << 20,
  });
  const { rss, unexplained, untouched, lines, firstMs, ms } = JSON.parse(
    output.trim().split('\n').at(-1),
  );
  return {
    rssMB: megabytes(rss),
    addsUp: lines.reduce((sum, { bytes }) => sum + bytes, 0) === rss,
    unexplainedPercent: Math.round((10000 * unexplained) / rss) / 100,
    untouchedMB: megabytes(untouched),
    firstMs,
    ms,
    lines: lines.map(({ category, name: what, bytes, note }) => ({
      category,
      name: category === 'files' ? path.basename(what) : what,
      MB: megabytes(bytes),
      ...(note === '' ? {} : { note }),
    })),
  };
}

export default function ledger() {
  return {
    bench: 'ledger',
    node: process.version,
    programs: Object.fromEntries(PROGRAMS.map((name) => [name, measure(name)])),
  };
}
