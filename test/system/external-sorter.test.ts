/**
 * Sorting under real limits: the benchmark's figures, pressure while a sort is under way, processes
 * that are killed, full and read-only disks.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { kernelLimitsAvailable } from '../../lib/cli/kernel-limit';
import { UnboundedMemoryPool } from '../../lib/pool';
import {
  ExternalSorter,
  fixedRecordCodec,
  fixedRecords,
  SpillDirectory,
  SpillDirectoryError,
  SpillSpaceError,
  sweepSpillDirectories,
} from '../../lib/spill';
import { runFixture } from '../support/child';
import { temporaryDirectory } from '../support/package';
import { drain, entries } from '../support/spilling';
import { describeWith, root } from '../support/tools';

const MIB = 2 ** 20;
const base = temporaryDirectory();
const directory = (name: string) => {
  const made = path.join(base, name);
  fs.mkdirSync(made, { recursive: true });
  return made;
};
const fixture = (name: string) => path.join(root, 'test', 'fixtures', name);

const running = new Set<ChildProcess>();
afterAll(() => {
  for (const child of running) child.kill('SIGKILL');
});

/** A child, and its lines as they come. */
function start(file: string, args: string[]) {
  const child = spawn(file, args, {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  running.add(child);
  const closed = once(child, 'close').then(([code, signal]) => {
    running.delete(child);
    return (code ?? signal) as number | NodeJS.Signals;
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async (): Promise<string> => (await lines.next()).value;
  return { child, closed, line };
}

const support = kernelLimitsAvailable();

describeWith(
  '5 million rows of 100 bytes under 128 MB in a 400 MB container',
  {
    name: 'a memory cgroup',
    available: support.available,
    why: support.available ? '' : support.reason,
  },
  () => {
    test('in order, at most 1.15 times the limit, at most twice the time', async () => {
      const { stdout } = await promisify(execFile)(process.execPath, [
        path.join(root, 'bench', 'run.mjs'),
        'sorter',
        process.env.OOM_GUARD_RUNS ?? '3',
      ]);
      const result = JSON.parse(stdout);
      expect(result, stdout).toMatchObject({ right: true, reservedAtEnd: 0, leftOnDisk: 0 });
      expect(result.spills.low).toBeGreaterThan(1);
      expect(result.peakOverLimit).toBeLessThanOrEqual(1.15);
      expect(result.timeRatio.median).toBeLessThanOrEqual(2);
    }, 300_000);
  },
);

describe('memory full while a sort is under way', () => {
  interface Outcome {
    ended: string;
    message?: string;
    rows: number;
    expected: number;
    misplaced: number;
    spills: number;
    reserved: number;
    usageBefore: number;
    limit: number;
  }
  const run = (exemption: number) =>
    runFixture<Outcome>('spill-under-pressure.cjs', [String(exemption)]);

  test('it spills, and finishes', async () => {
    const outcome = await run(4 * MIB);
    expect(outcome.usageBefore).toBeGreaterThan(outcome.limit);
    expect(outcome.ended, outcome.message).toBe('sorted');
    expect(outcome).toMatchObject({ rows: outcome.expected, misplaced: 0, reserved: 0 });
    expect(outcome.spills).toBeGreaterThan(0);
  });

  test('without the exemption for the buffers of a spill it is refused', async () => {
    const outcome = await run(0);
    expect(outcome).toMatchObject({ ended: 'exhausted', spills: 0, reserved: 0 });
    expect(outcome.message).toContain('Cannot reserve 512 KiB');
  });
});

describe('killed', () => {
  test('in the middle of a sort: the next one sweeps what is left', async () => {
    const parent = directory('killed');
    const args = [fixture('external-sorter.cjs'), '3000000', String(96e6), parent];
    const { child, closed, line } = start(process.execPath, args);
    expect(await line()).toBe('spilled');
    child.kill('SIGKILL');
    expect(await closed).toBe('SIGKILL');
    const [left = ''] = entries(parent);
    expect(left).toMatch(new RegExp(`^oom-guard-spill-${child.pid}-`));
    expect(entries(path.join(parent, left)).some((name) => name.endsWith('.spill'))).toBe(true);
    const next = await runFixture<{ complete: boolean }>('external-sorter.cjs', [
      '1000',
      String(96e6),
      parent,
    ]);
    expect(next.complete).toBe(true);
    expect(entries(parent)).toEqual([]);
  });

  test('what is not ours, or not dead, is left alone', async () => {
    const parent = directory('others');
    const living = start(process.execPath, [fixture('spill-directory.cjs'), parent, 'wait']);
    const name = path.basename(JSON.parse(await living.line()).path);
    const [, , , pid, started, ...rest] = name.split('-');
    const dead = start(process.execPath, ['-e', '']);
    await dead.closed;
    const kept = [
      name,
      'oom-guard-spill',
      `oom-guard-spill-${dead.child.pid}`,
      'something-else',
      // Another boot, and another pid namespace, in which nobody gives a sign of life.
      ['oom-guard-spill', dead.child.pid, started, '00000000', ...rest.slice(1)].join('-'),
      ['oom-guard-spill', dead.child.pid, started, rest[0], '00000000', rest[2]].join('-'),
    ];
    for (const other of kept.slice(1)) fs.mkdirSync(path.join(parent, other));
    const link = ['oom-guard-spill', dead.child.pid, started, ...rest].join('-');
    fs.symlinkSync(directory('elsewhere'), path.join(parent, link));
    // The number of a living process that started at another time, and of a dead one.
    const swept = [
      ['oom-guard-spill', pid, Number(started) - 1, ...rest].join('-'),
      ['oom-guard-spill', dead.child.pid, started, rest[0], rest[1], '0123456789ab'].join('-'),
    ].map((each) => path.join(parent, each));
    for (const each of swept) fs.mkdirSync(each);
    expect((await sweepSpillDirectories(parent)).sort()).toEqual([...swept].sort());
    expect(entries(parent).sort()).toEqual([...kept, link].sort());
    living.child.kill('SIGKILL');
    await living.closed;
    expect(await sweepSpillDirectories(parent)).toEqual([path.join(parent, name)]);
    expect(await sweepSpillDirectories(path.join(parent, 'missing'))).toEqual([]);
  });

  const namespaces = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const canUnshare = succeeds([...namespaces, 'true']);
  describeWith(
    'in another container',
    { name: 'pid namespaces', available: canUnshare, why: 'unshare --pid needs root' },
    () => {
      test('is told from alive by the sign of life in the directory', async () => {
        const parent = directory('containers');
        const [file = '', ...args] = [
          ...namespaces,
          process.execPath,
          fixture('spill-directory.cjs'),
          parent,
          'wait',
        ];
        const other = start(file, args);
        const { path: made } = JSON.parse(await other.line());
        expect(await sweepSpillDirectories(parent)).toEqual([]);
        other.child.kill('SIGKILL');
        await other.closed;
        // The kernel takes a moment to end what was in the namespace.
        let swept: string[] = [];
        for (let i = 0; i < 100 && swept.length === 0; i++) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          swept = await sweepSpillDirectories(parent);
        }
        expect(swept).toEqual([made]);
      });
    },
  );
});

describe('a process that ends', () => {
  test.each<[string, string, NodeJS.Signals | undefined, number | NodeJS.Signals]>([
    ['by itself', 'end', undefined, 0],
    ['by process.exit', 'exit', undefined, 0],
    ['by an exception', 'throw', undefined, 1],
    ['by SIGTERM', 'wait', 'SIGTERM', 'SIGTERM'],
    ['by SIGINT', 'wait', 'SIGINT', 'SIGINT'],
    ['by SIGHUP', 'wait', 'SIGHUP', 'SIGHUP'],
  ])('%s leaves nothing', async (_, how, signal, expected) => {
    const parent = directory(`ends-${how}-${signal}`);
    const args = [fixture('spill-directory.cjs'), parent, how];
    const { child, closed, line } = start(process.execPath, args);
    expect(JSON.parse(await line()).path).toContain(parent);
    if (signal !== undefined) child.kill(signal);
    expect(await closed).toBe(expected);
    expect(entries(parent)).toEqual([]);
  });

  test('after the last words of the application’s own signal listener', async () => {
    const parent = directory('ends-listener');
    const args = [fixture('spill-directory.cjs'), parent, 'listener'];
    const { child, closed, line } = start(process.execPath, args);
    await line();
    child.kill('SIGTERM');
    expect(JSON.parse(await line())).toEqual({ stillThere: true });
    expect(await closed).toBe(0);
    expect(entries(parent)).toEqual([]);
  });
});

const canMount = succeeds(['unshare', '--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']);

describeWith(
  'a small disk',
  { name: 'a tmpfs', available: canMount, why: 'mount needs root' },
  () => {
    const disk = directory('disk');
    beforeAll(() => {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${MIB}`, 'none', disk]);
    });
    afterAll(() => {
      execFileSync('umount', ['-l', disk]);
    });

    test('full: a clear error, nothing written is lost, and it goes on when there is room', async () => {
      await using spills = new SpillDirectory({ parent: disk });
      const file = spills.createFile(fixedRecordCodec(100));
      const batch = (n: number) => Buffer.alloc(100_000, n);
      let written = 0;
      let error: unknown;
      while (error === undefined) {
        try {
          await file.append(batch(written));
          written += 1;
        } catch (thrown) {
          error = thrown;
        }
      }
      expect(error).toBeInstanceOf(SpillSpaceError);
      expect(error).toMatchObject({
        code: 'ERR_OOM_GUARD_SPILL_DISK_FULL',
        requested: 100_016,
        used: written * 100_016,
        maxBytes: undefined,
        cause: { code: 'ENOSPC' },
      });
      expect(written).toBeGreaterThan(5);
      expect(fs.statSync(file.path).size).toBe(file.bytes);
      const all = Buffer.concat(Array.from({ length: written }, (_, n) => batch(n)));
      // Comparing them as Buffers: element by element it would take seconds.
      const read = async () => Buffer.concat(await drain(file));
      expect((await read()).equals(all)).toBe(true);
      // What is left of the megabyte takes a smaller one.
      const small = Buffer.alloc(1000, 99);
      await file.append(small);
      expect((await read()).equals(Buffer.concat([all, small]))).toBe(true);
    });

    test('full in the middle of a sort: the rows are still there, and nothing is left in the end', async () => {
      const memory = new UnboundedMemoryPool();
      const sorter = new ExternalSorter({
        rows: fixedRecords({ recordBytes: 100, key: { offset: 0 } }),
        memory,
        directory: { parent: disk },
      });
      const rows = Buffer.alloc(2_000_000);
      for (let at = 0; at < rows.length; at += 100) rows.writeUInt32BE((at * 7919) % 1_000_003, at);
      await sorter.push(rows);
      await expect(sorter.spill()).rejects.toThrow(SpillSpaceError);
      expect(sorter.stats).toMatchObject({ spills: 0, spilledBytes: 0 });
      const sorted = Buffer.concat(await drain(sorter.sorted()));
      expect(sorted.length).toBe(rows.length);
      for (let at = 100; at < sorted.length; at += 100) {
        expect(sorted.readUInt32BE(at)).toBeGreaterThanOrEqual(sorted.readUInt32BE(at - 100));
      }
      expect(entries(disk)).toEqual([]);
      expect(memory.reserved).toBe(0);
    });

    test('read-only: said at once', () => {
      execFileSync('mount', ['-o', 'remount,ro', disk]);
      try {
        expect(() => new SpillDirectory({ parent: disk })).toThrow(SpillDirectoryError);
      } finally {
        execFileSync('mount', ['-o', 'remount,rw', disk]);
      }
    });
  },
);

function succeeds([file = '', ...args]: string[]): boolean {
  try {
    execFileSync(file, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
