// npm run bench -- slack [runs]: a burst of sharp leaves slack in a 500 MB container, then Buffers up
// to 250 MB are granted. How often the process lives with the container's headroom checked, and how
// often the kernel kills it without. Needs root (memory cgroups), a build and sharp.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

const root = path.join(import.meta.dirname, '..');
const { createKernelLimit } = createRequire(import.meta.url)('../dist/cli/kernel-limit.js');

const LIMIT = 500e6;
const KILLED = 137;

/** One process in a container of its own: how it ended, and its last line of each phase. */
async function runOnce(containerCheck) {
  const group = createKernelLimit(LIMIT);
  try {
    const { file, args } = group.command(process.execPath, [
      path.join(root, 'test', 'fixtures', 'slack.cjs'),
      containerCheck ? 'on' : 'off',
    ]);
    const { MALLOC_ARENA_MAX: _, ...env } = process.env;
    const child = spawn(file, args, {
      env: { ...env, NODE_OPTIONS: '', UV_THREADPOOL_SIZE: '10' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    const [code, signal] = await new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (...ended) => resolve(ended));
    });
    const phases = {};
    for (const line of output.split('\n')) {
      try {
        const { phase, ...figures } = JSON.parse(line);
        phases[phase] = figures;
      } catch {
        // Killed in the middle of a line.
      }
    }
    const exit = signal === 'SIGKILL' && group.oomKilled() ? KILLED : (code ?? signal);
    return { exit, phases };
  } finally {
    group.close();
  }
}

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
