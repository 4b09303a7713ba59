// javascript.mjs <allocator> <jemalloc choice> [seconds]: what counting costs a program in JavaScript
// that allocates all the time, in one process: counted and original functions in ABBA blocks, and
// original against original for the noise.
import { createHash, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';
import zlib from 'node:zlib';
import { root } from '../support/children.mjs';
import { abba, ratios } from '../support/statistics.mjs';

const require = createRequire(import.meta.url);
const { startCounting } = require(path.join(root, 'dist'));
const { loadNative } = require(path.join(root, 'dist', 'native'));
const [allocator, jemalloc, seconds = '60'] = process.argv.slice(2);

const noise = randomBytes(4096);
const text = JSON.stringify(Array.from({ length: 100 }, (_, i) => ({ id: i, name: `row ${i}` })));

// Each of these reaches malloc many times: backing stores, OpenSSL contexts, zlib states, strings.
function work() {
  let sum = 0;
  for (let i = 0; i < 60; i++) {
    for (let j = 0; j < 25; j++) sum += Buffer.allocUnsafeSlow(100 + 37 * j).length;
    sum += createHash('sha1').update(noise).digest()[0];
    sum += Buffer.from(text, 'latin1').toString('utf8').length;
    if (i % 6 === 0) sum += zlib.deflateRawSync(text, { level: 1 }).length;
  }
  return sum;
}

// Each run collects what it allocated, so that none pays for the one before.
function timed() {
  const start = process.hrtime.bigint();
  work();
  gc({ type: 'minor' });
  return Number(process.hrtime.bigint() - start);
}

const [counted] = startCounting({ jemalloc }).allocators;
if (!counted.name.includes(allocator) || counted.mechanism !== 'callsites') {
  throw new Error(`${counted.name} by ${counted.mechanism} is not what was to be timed`);
}
const { binding } = loadNative();
const booked = () => binding.allocators()[0].allocated;
for (let i = 0; i < 50; i++) timed();
const before = booked();
timed();
const bytesPerRun = booked() - before;
if (bytesPerRun < 1e6) throw new Error('the work is not counted');

const one = (timed() + timed()) * 2;
const blocks = Math.max(40, Math.floor((Number(seconds) * 1e9) / one));
const noiseRatios = ratios(abba(blocks, () => binding.retarget(1), timed));
const countedRatios = ratios(
  abba(blocks, (which) => binding.retarget(which === 'a' ? 1 : 0), timed),
);
console.log(
  JSON.stringify({
    allocator: counted.name,
    mechanism: counted.mechanism,
    bytesPerRun,
    aToA: noiseRatios,
    counted: countedRatios,
  }),
);
