// npm run bench -- pool: what asking for memory costs, granted and refused.
import { runChild } from './support/children.mjs';

export default () => {
  const runs = Array.from({ length: 3 }, () =>
    runChild('pool.mjs', [], { nodeArgs: ['--expose-gc'] }),
  );
  return runs.sort((a, b) => a.grantedNs.median - b.grantedNs.median)[1];
};
