// pool.mjs: tryGrow over real readings, in nanoseconds a call.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { summary } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const { createMemoryGuard, processReadings, startCounting } = require(path.join(root, 'dist'));
const { MemoryConsumer, RealUsagePool, GreedyMemoryPool } = require(
  path.join(root, 'dist', 'pool'),
);
startCounting();

const CALLS = 10_000;

/** Nanoseconds a call: the median of many rounds, each followed by `reset`, which is not timed. */
function time(call, reset = () => {}, rounds = 101) {
  const values = [];
  for (let round = 0; round < rounds + 20; round++) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < CALLS; i++) call();
    const ns = Number(process.hrtime.bigint() - start) / CALLS;
    reset();
    if (round >= 20) values.push(ns);
  }
  return summary(values);
}

/** The median of single calls, the clock's own cost taken off: what one caller waits for. */
function timeOne(call, after = () => {}) {
  const values = [];
  const empty = [];
  for (let i = 0; i < 200_000; i++) {
    let start = process.hrtime.bigint();
    empty.push(Number(process.hrtime.bigint() - start));
    start = process.hrtime.bigint();
    call();
    values.push(Number(process.hrtime.bigint() - start));
    after();
  }
  const clock = summary(empty).median;
  const { median, low, high, samples } = summary(values);
  return { median: median - clock, low: low - clock, high: high - clock, samples };
}

const guard = createMemoryGuard({ limit: '16GiB' });
const native = new MemoryConsumer('native').register(guard.pool);
const spiller = new MemoryConsumer('spiller', { spill: () => {} }).register(guard.pool);
const heap = new MemoryConsumer('heap', { in: 'heap' }).register(guard.pool);
const unread = new MemoryConsumer('unread').register(
  createMemoryGuard({ limit: '16GiB', containerCheck: false }).pool,
);
const tight = createMemoryGuard({ limit: '1MiB', share: 'tight' });
const refused = new MemoryConsumer('refused').register(tight.pool);
const local = new RealUsagePool(new GreedyMemoryPool('16GiB'), {
  limit: '16GiB',
  readings: processReadings,
  // A clock of its own: no ledger shared with the process.
  clock: () => performance.now(),
});
const unshared = new MemoryConsumer('unshared').register(local);

/**
 * Bytes of garbage that a call leaves, in several rounds: by how much the heap is larger than after
 * the collection just before the calls, less what reading it takes.
 */
function garbage(call, calls = 1_000_000, rounds = 9) {
  for (let i = 0; i < 2 * calls; i++) call();
  const values = [];
  for (let round = 0; round < rounds; round++) {
    globalThis.gc();
    const start = process.memoryUsage().heapUsed;
    const reading = process.memoryUsage().heapUsed - start;
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < calls; i++) call();
    values.push((process.memoryUsage().heapUsed - before - reading) / calls);
  }
  values.sort((a, b) => a - b);
  return { calls, least: values[0], median: values[rounds >> 1], most: values[rounds - 1] };
}

const pair = () => {
  native.tryGrow(64);
  native.shrink(64);
};
const result = {
  grantedNs: time(
    () => native.tryGrow(64),
    () => native.free(),
  ),
  grantedToSpillableNs: time(
    () => spiller.tryGrow(64),
    () => spiller.free(),
  ),
  grantedInHeapNs: time(
    () => heap.tryGrow(64),
    () => heap.free(),
  ),
  refusedNs: time(() => refused.tryGrow(64)),
  oneCallNs: timeOne(
    () => native.tryGrow(64),
    () => native.shrink(64),
  ),
  growAndShrinkNs: time(pair),
  withoutSharedLedgerNs: time(
    () => unshared.tryGrow(64),
    () => unshared.free(),
  ),
  garbageOfGranted: garbage(() => {
    unread.tryGrow(64);
    unread.shrink(64);
  }),
  garbageOfRefused: garbage(() => refused.tryGrow(64)),
  // The container is read from files, once in 10 ms at most, however many calls there are.
  garbageWithContainer: garbage(pair),
};
console.log(JSON.stringify(result));
process.exit(0);
