// npm run bench -- counting [seconds]: what counting costs. A malloc and free pair in C, JavaScript that
// allocates all the time, DuckDB queries. Needs the native tests' build (npm run test:native) and
// Debian's libjemalloc2.
import { preload, runChild } from './support/children.mjs';

const jemalloc = { LD_PRELOAD: preload('jemalloc') };

export default ([seconds = '60']) => {
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
    duckdb: ['hooks', 'callsites'].map((choice) => runChild('duckdb.mjs', [choice, seconds])),
  };
};
