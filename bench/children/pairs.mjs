// pairs.mjs <allocator> <jemalloc choice>: what counting adds to a malloc and free pair.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { summary } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const { startCounting } = require(path.join(root, 'dist'));
const { loadNative } = require(path.join(root, 'dist', 'native'));
const [allocator, jemalloc] = process.argv.slice(2);

const { additionsPerCycle, pairs } = require(
  path.join(root, 'native', 'build', 'test', 'test', 'pairs.node'),
);
pairs(1e6, 1);
const before = Array.from({ length: 5 }, () => pairs(2e6, 1));
const [counted] = startCounting({ jemalloc }).allocators;
// The allocator and the mechanism that are to be timed are really the ones in use.
if (!counted.name.includes(allocator)) throw new Error(`${counted.name} is not ${allocator}`);
const { binding } = loadNative();

const PAIRS = 2e5;
const BLOCKS = 200;
const ORIGINAL = 1;
const COUNTING = 0;
const USABLE_SIZE = 2;

// All variants in every block, forth and back, so that a machine that changes its speed changes it for
// all of them.
function added(threads) {
  const targets = [ORIGINAL, COUNTING, USABLE_SIZE];
  const values = new Map(targets.map((target) => [target, []]));
  const freedom = [];
  for (let block = 0; block < BLOCKS; block++) {
    const sums = new Map(targets.map((target) => [target, 0]));
    const free = additionsPerCycle();
    for (const target of [...targets, ...[...targets].reverse()]) {
      binding.retarget(target);
      sums.set(target, sums.get(target) + pairs(PAIRS, threads) / 2);
    }
    for (const [target, sum] of sums) values.get(target).push(sum);
    freedom.push((free + additionsPerCycle()) / 2);
  }
  binding.retarget(COUNTING);
  const plain = values.get(ORIGINAL);
  const differences = (target) => values.get(target).map((ns, i) => ns - plain[i]);
  const counting = differences(COUNTING);
  // A core that somebody else's thread shares has half of its queues and units left for ours, and what
  // counting adds is not hidden behind the waits of the allocator as well as it is otherwise.
  const quarters = freedom.map((_, i) => i).sort((a, b) => freedom[a] - freedom[b]);
  const among = (indices) => ({
    additionsPerCycle: summary(indices.map((i) => freedom[i])).median,
    addedNs: summary(indices.map((i) => counting[i])),
  });
  const addedNs = summary(counting);
  const addedByUsableSizeNs = summary(differences(USABLE_SIZE));
  return {
    plainNs: summary(plain),
    addedNs,
    addedByUsableSizeNs,
    toUsableSize: addedNs.median / addedByUsableSizeNs.median,
    coreMostShared: among(quarters.slice(0, BLOCKS / 4)),
    coreLeastShared: among(quarters.slice(-BLOCKS / 4)),
  };
}

const result = { allocator: counted.name, mechanism: counted.mechanism };
if (counted.mechanism === 'callsites') {
  const live = () => binding.allocators()[0].allocated;
  const start = live();
  pairs(1000, 1);
  if (live() - start < 1000 * 24) throw new Error('the pairs are not counted');
  result.oneThread = added(1);
  result.twoThreads = added(2);
} else {
  // Hooks are never removed, so before and after is all there is.
  const after = Array.from({ length: 15 }, () => pairs(2e6, 1));
  result.oneThread = {
    addedNs: { median: summary(after).median - summary(before).median },
    plainNs: summary(before),
    countedNs: summary(after),
  };
}
console.log(JSON.stringify(result));
