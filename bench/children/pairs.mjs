// pairs.mjs <allocator> <jemalloc choice>: what counting adds to a malloc and free pair.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { summary } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const { startCounting } = require(path.join(root, 'dist'));
const { loadNative } = require(path.join(root, 'dist', 'native'));
const [allocator, jemalloc] = process.argv.slice(2);

const { pairs } = require(path.join(root, 'native', 'build', 'test', 'test', 'pairs.node'));
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
function added(targets, threads) {
  const values = new Map(targets.map((target) => [target, []]));
  for (let block = 0; block < BLOCKS; block++) {
    const sums = new Map(targets.map((target) => [target, 0]));
    for (const target of [...targets, ...[...targets].reverse()]) {
      binding.retarget(target);
      sums.set(target, sums.get(target) + pairs(PAIRS, threads) / 2);
    }
    for (const [target, sum] of sums) values.get(target).push(sum);
  }
  binding.retarget(COUNTING);
  const plain = values.get(ORIGINAL);
  const difference = (target) => summary(values.get(target).map((ns, i) => ns - plain[i]));
  const result = { plainNs: summary(plain), addedNs: difference(COUNTING) };
  if (targets.includes(USABLE_SIZE)) {
    result.addedByUsableSizeNs = difference(USABLE_SIZE);
    result.headerToUsableSize = result.addedNs.median / result.addedByUsableSizeNs.median;
  }
  return result;
}

const result = { allocator: counted.name, mechanism: counted.mechanism };
if (counted.mechanism === 'callsites') {
  const live = () => binding.allocators()[0].allocated;
  const start = live();
  pairs(1000, 1);
  if (live() - start < 1000 * 24) throw new Error('the pairs are not counted');
  const targets = [ORIGINAL, COUNTING, ...(allocator === 'glibc' ? [USABLE_SIZE] : [])];
  result.oneThread = added(targets, 1);
  result.twoThreads = added(targets, 2);
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
