// Comparing two things in one run: ABBA blocks, and the spread of what comes out.

/** Median and the 95 % interval of the median (by order statistics). */
export function summary(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const n = sorted.length;
  const at = (rank) => sorted[Math.min(n - 1, Math.max(0, Math.round(rank)))];
  const half = (1.96 * Math.sqrt(n)) / 2;
  return {
    median: n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
    low: at(n / 2 - half - 1),
    high: at(n / 2 + half),
    samples: n,
  };
}

const order = (block) => (block % 2 ? ['b', 'a', 'a', 'b'] : ['a', 'b', 'b', 'a']);

/** Runs `measure` in blocks A B B A and returns both values of every block. */
export function abba(blocks, select, measure) {
  const out = [];
  for (let block = 0; block < blocks; block++) {
    const values = { a: 0, b: 0 };
    for (const which of order(block)) {
      select(which);
      values[which] += measure() / 2;
    }
    out.push(values);
  }
  return out;
}

/**
 * The same for a `measure` that returns a promise. Of a block's two values of each the better one: what
 * other users of the machine add can only ever add.
 */
export async function abbaBest(blocks, select, measure) {
  const out = [];
  for (let block = 0; block < blocks; block++) {
    const values = { a: Number.POSITIVE_INFINITY, b: Number.POSITIVE_INFINITY };
    for (const which of order(block)) {
      select(which);
      values[which] = Math.min(values[which], await measure());
    }
    out.push(values);
  }
  return out;
}

export const ratios = (blocks) => summary(blocks.map(({ a, b }) => b / a));
export const differences = (blocks) => summary(blocks.map(({ a, b }) => b - a));
