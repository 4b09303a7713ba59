// npm run bench -- reads: what reading the numbers costs, and what starting does.
import { runChild } from './support/children.mjs';

export default () => {
  const runs = Array.from({ length: 5 }, () =>
    runChild('reads.mjs', [], { nodeArgs: ['--expose-gc'] }),
  );
  const middle = runs.sort((a, b) => a.startMs - b.startMs)[2];
  return { ...middle, startMsOfFiveRuns: runs.map(({ startMs }) => startMs) };
};
