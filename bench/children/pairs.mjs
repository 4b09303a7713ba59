// pairs.mjs <allocator> <jemalloc choice>: what counting adds to a malloc and free pair.
import { createRequire } from 'node:module';
import path from 'node:path';
import { root } from '../support/children.mjs';
import { abba, differences, summary } from '../support/statistics.mjs';

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

const PAIRS = 1e6;
const BLOCKS = 25;
const COUNTING = 0;
const ORIGINAL = 1;
const USABLE_SIZE = 2;

function added(target, threads) {
  const blocks = abba(
    BLOCKS,
    (which) => binding.retarget(which === 'a' ? ORIGINAL : target),
    () => pairs(PAIRS, threads),
  );
  return {
    addedNs: differences(blocks),
    plainNs: summary(blocks.map(({ a }) => a)),
    countedNs: summary(blocks.map(({ b }) => b)),
  };
}

const result = { allocator: counted.name, mechanism: counted.mechanism };
if (counted.mechanism === 'callsites') {
  const live = () => binding.allocators()[0].allocated;
  const start = live();
  pairs(1000, 1);
  if (live() - start < 1000 * 24) throw new Error('the pairs are not counted');
  result.oneThread = added(COUNTING, 1);
  result.twoThreads = added(COUNTING, 2);
  if (allocator === 'glibc') result.usableSize = added(USABLE_SIZE, 1);
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
