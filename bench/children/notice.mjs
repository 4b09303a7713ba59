// notice.mjs <bursts> <chunk bytes>: how long after usage passed a threshold the watchdog noticed,
// while JavaScript is blocked by the code that allocates and all cores are busy.
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root } from '../support/children.mjs';

const require = createRequire(import.meta.url);
const { Watchdog, processReadings } = require(path.join(root, 'dist'));
const { burst, spin } = require(path.join(root, 'native', 'build', 'test', 'test', 'pairs.node'));
const [bursts, chunk] = process.argv.slice(2).map(Number);
const GIB = 2 ** 30;

const watchdog = new Watchdog();
spin(os.cpus().length);
const delays = [];
let called = 0;
for (let i = 0; i < bursts; i++) {
  await sleep(30);
  const threshold = GIB / 2;
  const end = watchdog.onCrossing(processReadings.usage() + threshold, () => {
    called += 1;
  });
  const before = watchdog.read().crossings;
  const crossed = burst(GIB, chunk, threshold, 60);
  const { crossings, lastCrossingAt } = watchdog.read();
  delays.push(crossings === before + 1 ? lastCrossingAt - crossed : Number.POSITIVE_INFINITY);
  await sleep(1);
  end();
}
watchdog.close();
delays.sort((a, b) => a - b);
console.log(
  JSON.stringify({
    bursts,
    chunk,
    called,
    medianMs: delays[Math.floor(bursts / 2)],
    p99Ms: delays[Math.min(bursts - 1, Math.ceil(bursts * 0.99) - 1)],
  }),
);
process.exit(0);
