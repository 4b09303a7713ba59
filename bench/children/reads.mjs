// reads.mjs: what reading costs, with DuckDB, sharp and what else is installed loaded.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { summary } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const fromTools = createRequire(path.join(root, 'test', 'tools', 'package.json'));
const loaded = [];
for (const [from, name] of [
  [require, '@duckdb/node-api'],
  [require, 'sharp'],
  [fromTools, 'nodejs-polars'],
  [fromTools, 'better-sqlite3'],
  [fromTools, '@lancedb/lancedb'],
]) {
  try {
    from(name);
    loaded.push(name);
  } catch {
    // Not installed: the result says what was.
  }
}
const guard = require(path.join(root, 'dist'));
const { loadNative } = require(path.join(root, 'dist', 'native'));
const rss = () => process.memoryUsage.rss();
loadNative();
globalThis.gc?.();
const rssBefore = guard.processReadings.rss().anon;
const started = process.hrtime.bigint();
loadNative().binding.start(true, 0);
const startMs = Number(process.hrtime.bigint() - started) / 1e6;
const rssAdded = guard.processReadings.rss().anon - rssBefore;
guard.startCounting();
const { binding } = loadNative();

/** Nanoseconds a call: the median of many rounds. */
function time(call, perRound, rounds = 31) {
  for (let i = 0; i < perRound; i++) call();
  const values = [];
  for (let round = 0; round < rounds; round++) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < perRound; i++) call();
    values.push(Number(process.hrtime.bigint() - start) / perRound);
  }
  return summary(values);
}

const result = {
  loaded,
  startMs,
  rssAddedBytes: rssAdded,
  liveBytesNs: time(guard.liveBytes, 20000),
  rescanNothingNewNs: time(() => binding.rescan(), 5000),
  memoryNs: time(guard.memory, 50),
  rssNs: time(rss, 500),
};

const watchdog = new guard.Watchdog({ tickMs: 1 });
await new Promise((resolve) => setTimeout(resolve, 3000));
const { ticks, busyMs } = watchdog.read();
result.watchdogTickNs = (busyMs / ticks) * 1e6;
watchdog.close();

const { allocateInBackground } = require(
  path.join(root, 'native', 'build', 'test', 'test', 'pairs.node'),
);
allocateInBackground(16);
await new Promise((resolve) => setTimeout(resolve, 200));
// Short rounds: most of them fall between two preemptions, and the clock does not stop for those.
result.liveBytesWhile16AllocateNs = time(guard.liveBytes, 1000, 301);
console.log(JSON.stringify(result));
process.exit(0);
