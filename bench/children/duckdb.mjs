// duckdb.mjs <on|off> <jemalloc choice>: the time of the demo's kind of queries with and without
// counting, ms. Hooks cannot be removed, so each is a process of its own.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';

const require = createRequire(import.meta.url);
const { startCounting } = require(path.join(root, 'dist'));
const [counting, jemalloc] = process.argv.slice(2);
const { DuckDBInstance } = require('@duckdb/node-api');
const coverage = counting === 'on' ? startCounting({ jemalloc }) : undefined;

const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
const connection = await instance.connect();
const run = async () => {
  await connection.run(
    'CREATE OR REPLACE TABLE t AS SELECT range AS a, hash(range) AS b, (range * 7) % 1000 AS c, ' +
      "'row number ' || range AS d FROM range(2000000)",
  );
  await connection.runAndReadAll('SELECT c, count(*), sum(a) FROM t GROUP BY c ORDER BY c');
  await connection.runAndReadAll('SELECT max(d), min(b), count(DISTINCT b) FROM t WHERE a % 3 = 0');
  await connection.runAndReadAll('SELECT d FROM t ORDER BY b LIMIT 100');
};
await run();
const times = [];
for (let i = 0; i < 4; i++) {
  const start = performance.now();
  await run();
  times.push(performance.now() - start);
}
const mechanism = coverage?.allocators.find(({ name }) => name.includes('duckdb'))?.mechanism;
console.log(JSON.stringify({ mechanism: mechanism ?? 'off', ms: Math.min(...times) }));
