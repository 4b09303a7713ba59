// duckdb.mjs <jemalloc choice> [seconds] [rows]: what counting costs queries of the demo's kind, in one
// process: counted and not counted in ABBA blocks, and not counted against itself for the noise.
// DuckDB's own jemalloc and the process malloc are switched together.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { abbaBest, ratios } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const { startCounting } = require(path.join(root, 'dist'));
const { loadNative } = require(path.join(root, 'dist', 'native'));
const [jemalloc, seconds = '60', rows = '100000'] = process.argv.slice(2);
const { DuckDBInstance } = require('@duckdb/node-api');
const isDuckdb = ({ name }) => name.includes('duckdb');
const counted = startCounting({ jemalloc }).allocators.find(isDuckdb);
if (counted?.mechanism !== jemalloc) {
  throw new Error(`DuckDB is counted by ${counted?.mechanism}, not by ${jemalloc}`);
}

const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
const connection = await instance.connect();
async function queries() {
  await connection.run(
    'CREATE OR REPLACE TABLE t AS SELECT range AS a, hash(range) AS b, (range * 7) % 1000 AS c, ' +
      `'row number ' || range AS d FROM range(${rows})`,
  );
  await connection.run('SELECT c, count(*), sum(a) FROM t GROUP BY c ORDER BY c');
  await connection.run('SELECT max(d), min(b), count(DISTINCT b) FROM t WHERE a % 3 = 0');
  await connection.run('SELECT d FROM t ORDER BY b LIMIT 100');
}
async function timed() {
  const start = process.hrtime.bigint();
  await queries();
  return Number(process.hrtime.bigint() - start);
}

const { binding } = loadNative();
const booked = () => binding.allocators().find(isDuckdb).allocated;
const ORIGINAL = 1;
const COUNTING = 0;
for (let i = 0; i < 10; i++) await timed();
async function bytesPerRun(target) {
  binding.retarget(target);
  const before = booked();
  await timed();
  return booked() - before;
}
// That switching switches is seen before anything is timed.
const bytes = { original: await bytesPerRun(ORIGINAL), counted: await bytesPerRun(COUNTING) };
if (bytes.original !== 0) throw new Error(`${bytes.original} bytes were counted without counting`);
if (bytes.counted < Number(rows) * 32) throw new Error(`only ${bytes.counted} bytes were counted`);

const one = ((await timed()) + (await timed())) * 2;
const blocks = Math.max(20, Math.floor((Number(seconds) * 1e9) / one));
const noise = await abbaBest(blocks, () => binding.retarget(ORIGINAL), timed);
const cost = await abbaBest(
  blocks,
  (which) => binding.retarget(which === 'a' ? ORIGINAL : COUNTING),
  timed,
);
console.log(
  JSON.stringify({
    mechanism: counted.mechanism,
    rows: Number(rows),
    bytesPerRun: bytes.counted,
    aToA: ratios(noise),
    counted: ratios(cost),
  }),
);
