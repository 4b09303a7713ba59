// npm run bench -- slack [runs]: a burst of sharp leaves slack in a 500 MB container, then Buffers up
// to 250 MB are granted. How often the process lives with the container's headroom checked, and how
// often the kernel kills it without. Needs root (memory cgroups), a build and sharp.
import { KILLED, runContained } from './support/contained.mjs';

const LIMIT = 500e6;

const runOnce = (containerCheck) =>
  runContained(LIMIT, 'slack.cjs', [containerCheck ? 'on' : 'off'], { UV_THREADPOOL_SIZE: '10' });

const megabytes = (bytes) => (bytes === undefined ? null : Math.round(bytes / 1e5) / 10);

function describe({ exit, phases: { idle, granted, holding, held } }) {
  return {
    exit,
    idle: {
      liveMB: megabytes(idle?.live),
      rssMB: megabytes(idle?.rss),
      anonMB: megabytes(idle?.anon),
    },
    rssOverLive: idle ? Math.round((10 * idle.rss) / idle.live) / 10 : null,
    grantedAtOnce: granted?.granted ?? null,
    heldMB: megabytes(holding?.held ?? 0),
    last: { liveMB: megabytes(holding?.live), anonMB: megabytes(holding?.anon) },
    reclaims: held?.reclaims ?? null,
  };
}

async function series(runs, containerCheck) {
  const all = [];
  for (let i = 0; i < runs; i++) all.push(describe(await runOnce(containerCheck)));
  return {
    alive: all.filter(({ exit, heldMB }) => exit === 0 && heldMB === 250).length,
    killed: all.filter(({ exit }) => exit === KILLED).length,
    runs: all,
  };
}

export default async function slack([runs = '20']) {
  const count = Number(runs);
  if (!Number.isSafeInteger(count) || count < 1) throw new RangeError(`runs: ${runs}`);
  return {
    bench: 'slack',
    node: process.version,
    limitMB: megabytes(LIMIT),
    runs: count,
    checked: await series(count, true),
    unchecked: await series(count, false),
  };
}
