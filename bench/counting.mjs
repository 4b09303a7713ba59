// npm run bench -- counting [seconds]: what counting costs. A malloc and free pair in C, JavaScript that
// allocates all the time, DuckDB queries. Needs the native tests' build (npm run test:native) and
// Debian's libjemalloc2.
import { preload, runChild } from './support/children.mjs';
import { ratios } from './support/statistics.mjs';

const jemalloc = { LD_PRELOAD: preload('jemalloc') };

function duckdb(choice, rounds) {
  const blocks = [];
  let mechanism;
  for (let round = 0; round < rounds; round++) {
    const values = { a: 0, b: 0 };
    for (const which of round % 2 ? ['on', 'off', 'off', 'on'] : ['off', 'on', 'on', 'off']) {
      const result = runChild('duckdb.mjs', [which, choice]);
      values[which === 'off' ? 'a' : 'b'] += result.ms;
      if (which === 'on') mechanism = result.mechanism;
    }
    blocks.push(values);
  }
  if (mechanism !== choice) throw new Error(`DuckDB was counted by ${mechanism}, not by ${choice}`);
  return { mechanism, ratio: ratios(blocks) };
}

export default ([seconds = '60']) => {
  const rounds = Math.max(6, Math.round(Number(seconds) / 6));
  const nodeArgs = ['--expose-gc'];
  return {
    pair: {
      glibc: runChild('pairs.mjs', ['glibc', 'auto']),
      jemallocCallsites: runChild('pairs.mjs', ['jemalloc', 'callsites'], { env: jemalloc }),
      jemallocHooks: runChild('pairs.mjs', ['jemalloc', 'hooks'], { env: jemalloc }),
      tcmalloc: runChild('pairs.mjs', ['tcmalloc', 'auto'], {
        env: { LD_PRELOAD: preload('tcmalloc') },
      }),
    },
    javascript: {
      glibc: runChild('javascript.mjs', ['glibc', 'auto', seconds], { nodeArgs }),
      jemallocCallsites: runChild('javascript.mjs', ['jemalloc', 'callsites', seconds], {
        env: jemalloc,
        nodeArgs,
      }),
    },
    duckdb: [duckdb('hooks', rounds), duckdb('callsites', rounds)],
  };
};
