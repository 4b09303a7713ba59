// npm run bench -- batches [millions]: what `task.batches` costs over a bare pass-through async
// generator, in one process, in alternation. Needs a build.
import { createRequire } from 'node:module';
import { differences, ratios, summary } from './support/statistics.mjs';

const require = createRequire(import.meta.url);
const { createMemoryGuard, liveBytes } = require('../dist/index.js');

const BLOCK = 200_000;

/** Batches that are there already: what is measured is the passing through. */
function source(count) {
  const batch = { value: { rows: 1 }, done: false };
  let left = count;
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: async () => {
      left -= 1;
      return left >= 0 ? batch : { value: undefined, done: true };
    },
  };
}

async function* passThrough(batches) {
  for await (const batch of batches) yield batch;
}

/** Nanoseconds a batch. */
async function time(iterable) {
  let count = 0;
  const start = process.hrtime.bigint();
  for await (const _ of iterable) count += 1;
  const nanoseconds = Number(process.hrtime.bigint() - start);
  if (count !== BLOCK) throw new Error(`${count} of ${BLOCK} batches came through`);
  return nanoseconds / count;
}

export default async function batches([millions = '10']) {
  const rounds = Math.ceil((Number(millions) * 1e6) / BLOCK);
  if (!(rounds >= 1)) throw new RangeError(`millions: ${millions}`);
  const guard = createMemoryGuard({ limit: '8GB' });
  return guard.run('bench', async (task) => {
    if (liveBytes() === 0) throw new Error('nothing is counted');
    const bare = () => time(passThrough(source(BLOCK)));
    const guarded = () => time(task.batches(source(BLOCK)));
    for (let i = 0; i < 5; i++) {
      await bare();
      await guarded();
    }
    const blocks = [];
    for (let round = 0; round < rounds; round += 2) {
      // A B B A, then B A A B.
      const order = round % 4 === 0 ? ['a', 'b', 'b', 'a'] : ['b', 'a', 'a', 'b'];
      const sums = { a: 0, b: 0 };
      for (const which of order) sums[which] += (await (which === 'a' ? bare() : guarded())) / 2;
      blocks.push(sums);
    }
    return {
      bench: 'batches',
      node: process.version,
      batches: rounds * BLOCK,
      bareNs: summary(blocks.map(({ a }) => a)),
      guardedNs: summary(blocks.map(({ b }) => b)),
      differenceNs: differences(blocks),
      ratio: ratios(blocks),
    };
  });
}
