// npm run bench -- shedding [runs] [scenario]: what a guard is for, in containers, guarded and bare:
// how often it ends well. Needs root (memory cgroups) and a build.
import { createRequire } from 'node:module';
import { ABORTED, KILLED, runContained, runTogether } from './support/contained.mjs';

const { kernelLimitsAvailable } = createRequire(import.meta.url)('../dist/cli/kernel-limit.js');
const SCRIPT = 'guard-scenarios.cjs';

const once = (limit, ...args) => runContained(limit, SCRIPT, args);

/** Each: the container, what is run, and what of the outcome is counted. */
const scenarios = {
  garbage: {
    what: '2,000 dropped Buffers of 1 MiB under a limit of 64 MB',
    run: () => once(500e6, 'garbage'),
    well: ({ exit, phases: { done } }) => exit === 0 && done.shed === 0 && done.spills === 0,
  },
  greedy: {
    what: 'ten tasks, one takes 50 MB a batch and never frees; limit 600 MB, container 900 MB',
    run: () => once(900e6, 'greedy'),
    well: ({ exit, phases: { done } }) => exit === 0 && done.greedy === 'shed' && done.right === 9,
  },
  'greedy-next': {
    what: "the same with victim: 'next'; well: the greedy one and nobody else was hit",
    run: () => once(900e6, 'greedy', 'next'),
    well: ({ exit, phases: { done } }) => exit === 0 && done.greedy === 'shed' && done.right === 9,
  },
  query: {
    what: 'a DuckDB query that grows over 400 MB is stopped within 500 ms of crossing',
    run: () => once(3e9, 'query'),
    well: ({ exit, phases: { done } }) =>
      exit === 0 && done.exhausted && done.ms <= 500 && done.usable === 42,
  },
  objects: {
    what: 'ten tasks that keep rows as objects, container 500 MB',
    run: () => once(500e6, 'objects', 'guarded'),
    well: ({ exit, phases: { done } }) => exit === 0 && done.other.length === 0,
  },
  'objects-bare': {
    what: 'the same without a guard',
    run: () => once(500e6, 'objects', 'bare'),
    well: ({ exit }) => exit === 0,
  },
  workers: {
    what: 'four Workers with growing heaps, container 500 MB',
    run: () => once(500e6, 'workers', 'guarded'),
    well: ({ exit, phases: { done } }) => exit === 0 && done.right === 4,
  },
  'workers-bare': {
    what: 'the same without a guard',
    run: () => once(500e6, 'workers', 'bare'),
    well: ({ exit }) => exit === 0,
  },
  auto: {
    what: "four processes with limit: 'auto' in one container of 1 GB, each wants 400 MB",
    run: async () => {
      const scripts = Array.from({ length: 4 }, () => ({ script: SCRIPT, args: ['auto'] }));
      const { ended, chargedBytes } = await runTogether(1e9, scripts);
      const worst = ended.find(({ exit }) => exit !== 0) ?? ended[0];
      return {
        exit: worst.exit,
        chargedBytes,
        phases: { done: ended.map(({ phases }) => phases) },
      };
    },
    well: ({ exit, phases: { done } }) =>
      exit === 0 && done.every((phases) => phases.done?.right && phases.done.shed === 0),
  },
};

async function series(name, runs) {
  const { what, run, well } = scenarios[name];
  const all = [];
  for (let i = 0; i < runs; i++) all.push(await run());
  const milliseconds = all.flatMap(({ phases }) => phases.done?.ms ?? []);
  return {
    what,
    runs,
    well: all.filter(well).length,
    killed: all.filter(({ exit }) => exit === KILLED).length,
    aborted: all.filter(({ exit }) => exit === ABORTED).length,
    hit: all.reduce((sum, { phases }) => sum + (phases.done?.hit ?? 0), 0),
    ...(milliseconds.length > 0 ? { mostMs: Math.max(...milliseconds) } : {}),
    failures: all
      .filter((outcome) => !well(outcome))
      .map(({ exit, phases }) => ({ exit, ...phases }))
      .slice(0, 3),
  };
}

export default async function shedding([runs = '20', only]) {
  const count = Number(runs);
  if (!Number.isSafeInteger(count) || count < 1) throw new RangeError(`runs: ${runs}`);
  if (only !== undefined && !Object.hasOwn(scenarios, only)) {
    throw new RangeError(`scenario: ${only}; one of ${Object.keys(scenarios).join(', ')}`);
  }
  const support = kernelLimitsAvailable();
  if (!support.available) throw new Error(support.reason);
  const result = { bench: 'shedding', node: process.version };
  for (const name of only === undefined ? Object.keys(scenarios) : [only]) {
    result[name] = await series(name, count);
  }
  return result;
}
