import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  createKernelLimit,
  type KernelLimit,
  kernelLimitsAvailable,
} from '../../lib/cli/kernel-limit';

const MiB = 2 ** 20;
const support = kernelLimitsAvailable();

/** Takes `size` MiB that are touched, hence charged, then tells V8's heap limit. */
const allocate = (size: number) => `
  const held = [];
  for (let i = 0; i < ${size}; i++) held.push(Buffer.alloc(${MiB}, 1));
  console.log(require('node:v8').getHeapStatistics().heap_size_limit);`;

const opened: KernelLimit[] = [];

function limitTo(bytes: number): KernelLimit {
  const group = createKernelLimit(bytes);
  opened.push(group);
  return group;
}

function start(group: KernelLimit, script: string) {
  const { file, args } = group.command(process.execPath, ['-e', script]);
  return spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function run(group: KernelLimit, script: string) {
  const child = start(group, script);
  let stdout = '';
  child.stdout.on('data', (data) => {
    stdout += data;
  });
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout };
}

afterEach(() => {
  for (const group of opened.splice(0)) group.close();
});

describe('kernelLimitsAvailable', () => {
  it('gives a version or a reason, and leaves no group', () => {
    if (support.available) expect([1, 2]).toContain(support.version);
    else expect(support.reason).not.toBe('');
  });
});

describe.runIf(support.available)('createKernelLimit', () => {
  it('lets a process live that stays under the limit', async () => {
    const group = limitTo(200 * MiB);
    const { code, stdout } = await run(group, allocate(50));
    expect(code).toBe(0);
    expect(group.oomKilled()).toBe(false);
    // Node was in the group before it started: it sized its heap by the limit.
    expect(Number(stdout)).toBeLessThan(300 * MiB);
    const peak = group.peakBytes();
    if (peak !== null) {
      expect(peak).toBeGreaterThan(50 * MiB);
      expect(peak).toBeLessThanOrEqual(200 * MiB);
    }
  });

  it('has the kernel kill a process that passes the limit', async () => {
    const group = limitTo(200 * MiB);
    const { code, signal } = await run(group, allocate(400));
    expect({ code, signal }).toEqual({ code: null, signal: 'SIGKILL' });
    expect(group.oomKilled()).toBe(true);
  });

  it('removes the group on close, with what still runs in it', async () => {
    const group = limitTo(200 * MiB);
    const child = start(group, 'console.log(1); setInterval(() => {}, 1000)');
    const ended = once(child, 'close');
    await once(child.stdout, 'data');
    group.close();
    expect(fs.existsSync(group.directory)).toBe(false);
    const [, signal] = await ended;
    expect(signal).toBe('SIGKILL');
    group.close();
  });

  it('removes the group when its maker is interrupted or ends', async () => {
    const built = path.resolve('dist/cli/kernel-limit.js');
    for (const end of ['SIGINT', 'SIGTERM', 'exit'] as const) {
      const script = `
        const group = require(${JSON.stringify(built)}).createKernelLimit(200 * ${MiB});
        const { file, args } = group.command(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
        require('node:child_process').spawn(file, args, { stdio: 'ignore' }).unref();
        console.log(group.directory);
        ${end === 'exit' ? 'setTimeout(() => process.exit(3), 200)' : 'setInterval(() => {}, 1000)'}`;
      const maker = spawn(process.execPath, ['-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const ended = once(maker, 'exit');
      const [line] = await once(maker.stdout, 'data');
      const directory = String(line).trim();
      expect(fs.existsSync(directory)).toBe(true);
      if (end !== 'exit') {
        await delay(100);
        maker.kill(end);
      }
      const [code, signal] = await ended;
      expect({ code, signal }).toEqual(
        end === 'exit' ? { code: 3, signal: null } : { code: null, signal: end },
      );
      expect(fs.existsSync(directory)).toBe(false);
    }
  });

  it.each([0, -1, 1.5, Number.NaN])('refuses a limit of %s bytes', (limit) => {
    expect(() => createKernelLimit(limit)).toThrow(RangeError);
  });
});
