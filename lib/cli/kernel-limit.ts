/**
 * A memory cgroup with a hard limit for one child process: what a container has, without the
 * container. Linux, cgroup v1 and v2; says why where it cannot be had.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { onExit } from '../on-exit';

/** Whether this process may create memory cgroups, and of which version. */
export type KernelLimitSupport =
  | { available: true; version: 1 | 2 }
  | { available: false; reason: string };

/** The control files of one cgroup version. */
interface Controls {
  version: 1 | 2;
  /** File holding the hard limit, bytes. */
  limit: string;
  /** File holding the highest use ever, bytes. Linux 5.19 and later on v2. */
  peak: string;
  /** File with a line `oom_kill <count>`. */
  events: string;
  /** Written after the limit where they exist: without them the group swaps instead of dying. */
  swap: ReadonlyArray<{ file: string; value: (limit: number) => string }>;
}

const v1: Controls = {
  version: 1,
  limit: 'memory.limit_in_bytes',
  peak: 'memory.max_usage_in_bytes',
  events: 'memory.oom_control',
  swap: [
    // Memory plus swap together, so the same number leaves no swap.
    { file: 'memory.memsw.limit_in_bytes', value: String },
    { file: 'memory.swappiness', value: () => '0' },
  ],
};

const v2: Controls = {
  version: 2,
  limit: 'memory.max',
  peak: 'memory.peak',
  events: 'memory.events',
  swap: [{ file: 'memory.swap.max', value: () => '0' }],
};

/** A directory below which groups can be made. */
interface Place {
  directory: string;
  controls: Controls;
}

/** One group. Close it when its process has ended; it closes itself when this process ends. */
export interface KernelLimit extends Disposable {
  /** cgroup version, 1 or 2. */
  readonly version: 1 | 2;
  /** The hard limit, bytes. */
  readonly limit: number;
  /** The group's directory. */
  readonly directory: string;
  /**
   * The command line that starts `file` inside the group. The process joins before it executes
   * `file`, so a Node in it sizes its heap by the limit, as it would in a container.
   */
  command(file: string, args: readonly string[]): { file: string; args: string[] };
  /** Highest use so far as the kernel charges it, page cache included, bytes; null if unknown. */
  peakBytes(): number | null;
  /** True when the kernel has killed a process of this group for want of memory. */
  oomKilled(): boolean;
  /** Kills what is left in the group and removes it. Idempotent. */
  close(): void;
}

/** Tells whether hard limits can be set here, by making a group and removing it. */
export function kernelLimitsAvailable(): KernelLimitSupport {
  try {
    const { directory, controls } = makeGroup();
    removeGroup(directory);
    return { available: true, version: controls.version };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Makes a group limited to `limit` bytes. Throws, with the reason, where it cannot be done. */
export function createKernelLimit(limit: number): KernelLimit {
  if (!Number.isSafeInteger(limit) || limit <= 0) {
    throw new RangeError(`the limit must be a positive whole number of bytes, got ${limit}`);
  }
  const { directory, controls } = makeGroup();
  const forget = onExit(() => removeGroup(directory));
  let closed = false;
  const close = () => {
    if (closed) return;
    removeGroup(directory);
    closed = true;
    forget();
  };
  try {
    writeLimits(directory, controls, limit);
  } catch (error) {
    close();
    throw error;
  }
  return {
    version: controls.version,
    limit,
    directory,
    command: (file, args) => joinThenExecute(directory, file, args),
    peakBytes: () => readNumber(path.join(directory, controls.peak)),
    oomKilled: () => readOomKills(path.join(directory, controls.events)) > 0,
    close,
    [Symbol.dispose]: close,
  };
}

function writeLimits(directory: string, controls: Controls, limit: number): void {
  fs.writeFileSync(path.join(directory, controls.limit), String(limit));
  for (const { file, value } of controls.swap) {
    const full = path.join(directory, file);
    if (!fs.existsSync(full)) continue;
    try {
      fs.writeFileSync(full, value(limit));
    } catch {
      // Some kernels show these files and refuse to take a value: the memory limit still holds.
    }
  }
}

/**
 * No core file: an aborting Node would otherwise leave one as large as the limit in the working
 * directory.
 */
function joinThenExecute(directory: string, file: string, args: readonly string[]) {
  const script = 'ulimit -c 0; echo $$ > "$0" && exec "$@"';
  return {
    file: '/bin/sh',
    args: ['-c', script, path.join(directory, 'cgroup.procs'), file, ...args],
  };
}

function makeGroup(): Place {
  if (process.platform !== 'linux') {
    throw new Error(`hard memory limits need Linux cgroups, and this is ${process.platform}`);
  }
  const places = candidates();
  if (places.length === 0)
    throw new Error('no cgroup hierarchy with a memory controller is mounted');
  let problem = '';
  for (const { directory: parent, controls } of places) {
    const directory = path.join(
      parent,
      `oom-guard-${process.pid}-${randomBytes(3).toString('hex')}`,
    );
    try {
      fs.mkdirSync(directory);
    } catch (error) {
      problem ||= `cannot create a group in ${parent}: ${(error as NodeJS.ErrnoException).code}`;
      continue;
    }
    const obstacle = obstacleIn(directory, controls);
    if (obstacle === null) return { directory, controls };
    removeGroup(directory);
    problem ||= `${obstacle} below ${parent}`;
  }
  throw new Error(problem);
}

/** What keeps a new group from being of use; null when nothing does. */
function obstacleIn(directory: string, controls: Controls): string | null {
  if (!isWritable(path.join(directory, controls.limit))) {
    return 'the memory controller is not delegated to groups';
  }
  // Whoever may create a group may still not move processes into it: that takes a try.
  const { file, args } = joinThenExecute(directory, '/bin/sh', ['-c', ':']);
  const { status } = spawnSync(file, args, { stdio: 'ignore' });
  return status === 0 ? null : 'processes cannot be moved to groups';
}

/**
 * Where groups might be made: below our own group, else below those above it. On v2 a group that
 * has processes has no groups with a memory limit below it, so there it is usually the second.
 */
function candidates(): Place[] {
  const mounts = readText('/proc/self/mounts')
    .split('\n')
    .map((line) => line.split(' '));
  const own = ownGroups();
  const places: Place[] = [];
  for (const [, mount = '', type, options = ''] of mounts) {
    if (type === 'cgroup' && options.split(',').includes('memory')) {
      for (const directory of upwards(mount, own.v1)) places.push({ directory, controls: v1 });
    } else if (type === 'cgroup2') {
      // The unified hierarchy beside a v1 memory controller lists no `memory`: nothing to find there.
      if (!/\bmemory\b/.test(readText(path.join(mount, 'cgroup.controllers')))) continue;
      for (const directory of upwards(mount, own.v2)) places.push({ directory, controls: v2 });
    }
  }
  return places;
}

/** `mount/a/b`, `mount/a`, `mount`: those that exist (inside containers the path is the host's). */
function upwards(mount: string, group: string): string[] {
  const directories: string[] = [];
  for (let at = group; ; at = path.posix.dirname(at)) {
    const directory = path.join(mount, at);
    if (fs.existsSync(directory)) directories.push(directory);
    if (at === '/' || at === '.') return directories;
  }
}

function ownGroups(): { v1: string; v2: string } {
  const groups = { v1: '/', v2: '/' };
  for (const line of readText('/proc/self/cgroup').split('\n')) {
    const [id, controllers = '', ...rest] = line.split(':');
    if (id === '0' && controllers === '') groups.v2 = rest.join(':');
    else if (controllers.split(',').includes('memory')) groups.v1 = rest.join(':');
  }
  return groups;
}

/** How long a group may stay busy after its processes were killed, milliseconds. */
const busyPatience = 5_000;

/**
 * Kills and removes. Synchronous, because it also runs while the process is exiting; the kernel
 * keeps a group busy for a moment after its last process was killed, hence the retries.
 */
function removeGroup(directory: string): void {
  const deadline = Date.now() + busyPatience;
  for (;;) {
    try {
      fs.rmdirSync(directory);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || Date.now() > deadline) throw error;
    }
    killGroup(directory);
    sleep(10);
  }
}

function killGroup(directory: string): void {
  for (const line of readText(path.join(directory, 'cgroup.procs')).split('\n')) {
    const pid = Number(line);
    // 0 stands for a process outside our pid namespace, and would mean our own process group.
    if (!Number.isInteger(pid) || pid <= 0) continue;
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
}

function sleep(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function isWritable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function readNumber(file: string): number | null {
  const text = readText(file).trim();
  return /^\d+$/.test(text) ? Number(text) : null;
}

function readOomKills(file: string): number {
  return Number(/^oom_kill (\d+)$/m.exec(readText(file))?.[1] ?? 0);
}
