// npm run bench -- pool: what asking for memory costs, granted and refused.
import { runChild } from './support/children.mjs';

// Room for all the garbage of a million calls, so that no collection hides any.
const nodeArgs = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'];

export default () => {
  const runs = Array.from({ length: 3 }, () => runChild('pool.mjs', [], { nodeArgs }));
  return runs.sort((a, b) => a.grantedNs.median - b.grantedNs.median)[1];
};
