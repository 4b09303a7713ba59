/**
 * The memory cgroup that this process is charged to, v1 and v2, found through the mount table: a
 * container may mount it anywhere, and namespaces shift the paths that `/proc/self/cgroup` shows.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ContainerReading } from './readings';

/** The kernel writes "no limit" as a huge number (v1); nothing real is larger than this. */
const UNLIMITED = 2 ** 60;

/** What memory.stat calls anonymous memory, the groups below included. */
const ANON = { 1: 'total_rss', 2: 'anon' } as const;

interface Hierarchy {
  version: 1 | 2;
  /** From our own group up to the mount point. */
  directories: string[];
}

/** Reads the limit and what is charged. `root` stands before every path, for tests on fixtures. */
export class ContainerReader {
  readonly #root: string;
  readonly #hierarchy: Hierarchy | undefined;

  constructor(root = '') {
    this.#root = root;
    this.#hierarchy = findHierarchy(root);
  }

  /** `undefined` outside a memory cgroup. Reads a few small files: some tens of microseconds. */
  read(): ContainerReading | undefined {
    const level = this.#limitingLevel();
    if (level === undefined) return undefined;
    const { version, limit, where } = level;
    const file = (name: string) => path.join(this.#root, where, name);
    const anon = readStat(file('memory.stat'), ANON[version]);
    const current = readNumber(file(version === 1 ? 'memory.usage_in_bytes' : 'memory.current'));
    if (anon === undefined) return undefined;
    return { limit, anon, current: current ?? anon, version, path: where };
  }

  /** Where the anonymous bytes stand: a line of a file. */
  statFile(): { file: string; name: string; limit: number | undefined } | undefined {
    const level = this.#limitingLevel();
    if (level === undefined) return undefined;
    const file = path.join(this.#root, level.where, 'memory.stat');
    return { file, name: ANON[level.version], limit: level.limit };
  }

  /** The group with the lowest limit on the way up, our own when there is none. */
  #limitingLevel() {
    const hierarchy = this.#hierarchy;
    if (hierarchy === undefined) return undefined;
    const limitFile = hierarchy.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
    let limit: number | undefined;
    let where = hierarchy.directories[0] as string;
    for (const directory of hierarchy.directories) {
      const value = readNumber(path.join(this.#root, directory, limitFile));
      if (value === undefined || value >= UNLIMITED) continue;
      if (limit === undefined || value < limit) {
        limit = value;
        where = directory;
      }
    }
    return { version: hierarchy.version, limit, where };
  }
}

function findHierarchy(root: string): Hierarchy | undefined {
  const groups = readText(path.join(root, '/proc/self/cgroup'));
  const mounts = readText(path.join(root, '/proc/self/mountinfo'));
  if (groups === undefined || mounts === undefined) return undefined;
  const parsed = mounts.split('\n').flatMap(parseMount);
  for (const version of [1, 2] as const) {
    const group = groupPath(groups, version);
    const mount = parsed.find((entry) =>
      version === 1
        ? entry.type === 'cgroup' && entry.options.includes('memory')
        : entry.type === 'cgroup2',
    );
    if (group === undefined || mount === undefined) continue;
    const inside = path.posix.relative(mount.root, group);
    const outside = inside === '..' || inside.startsWith('../');
    const directories = [];
    let directory = outside ? mount.point : path.posix.join(mount.point, inside);
    for (;;) {
      directories.push(directory);
      if (directory === mount.point || directory === '/') break;
      directory = path.posix.dirname(directory);
    }
    const probe = version === 1 ? 'memory.usage_in_bytes' : 'memory.stat';
    const known = directories.filter(
      (candidate) => readText(path.join(root, candidate, probe)) !== undefined,
    );
    if (known.length > 0) return { version, directories: known };
  }
  return undefined;
}

/** v1 lists the controllers of each hierarchy; v2 is the line with none. */
function groupPath(text: string, version: 1 | 2): string | undefined {
  for (const line of text.split('\n')) {
    const [id, controllers, ...rest] = line.split(':');
    if (controllers === undefined) continue;
    const matches =
      version === 1 ? controllers.split(',').includes('memory') : id === '0' && controllers === '';
    if (matches) return rest.join(':');
  }
  return undefined;
}

interface Mount {
  root: string;
  point: string;
  type: string;
  options: string[];
}

/** `36 35 98:0 /root /point rw,… shared:1 - type source superoptions` (proc_pid_mountinfo(5)). */
function parseMount(line: string): Mount[] {
  const [head, tail] = line.split(' - ');
  if (head === undefined || tail === undefined) return [];
  const fields = head.split(' ');
  const [type, , options] = tail.split(' ');
  const root = fields[3];
  const point = fields[4];
  if (root === undefined || point === undefined || type === undefined) return [];
  return [
    {
      root: unescapeField(root),
      point: unescapeField(point),
      type,
      options: (options ?? '').split(','),
    },
  ];
}

/** Spaces and the like are written as `\040`. */
function unescapeField(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** `max` and unreadable files are `undefined`. */
function readNumber(file: string): number | undefined {
  const text = readText(file)?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return undefined;
  return Number(text);
}

function readStat(file: string, key: string): number | undefined {
  const match = readText(file)?.match(new RegExp(`^${key} (\\d+)$`, 'm'));
  return match ? Number(match[1]) : undefined;
}
