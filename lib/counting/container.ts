/**
 * The memory cgroup that this process is charged to, v1 and v2, found through the mount table: a
 * container may mount it anywhere, and namespaces shift the paths that `/proc/self/cgroup` shows.
 */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
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

interface Level {
  version: 1 | 2;
  limit: number | undefined;
  directory: string;
}

/** Limits seldom change; they are read again after this time, ms. */
const LIMITS_AGE_MS = 1000;

/** Reads the limit and what is charged. `root` stands before every path, for tests on fixtures. */
export class ContainerReader {
  readonly #root: string;
  readonly #hierarchy: Hierarchy | undefined;
  #level: Level | undefined;
  #levelReadAt = Number.NEGATIVE_INFINITY;
  #files: { directory: string; stat: OpenFile; current: OpenFile } | undefined;

  constructor(root = '') {
    this.#root = root;
    this.#hierarchy = findHierarchy(root);
  }

  /** `undefined` outside a memory cgroup. Reads two small files: some ten microseconds. */
  read(): ContainerReading | undefined {
    const level = this.#limitingLevel();
    if (level === undefined) return undefined;
    const { version, limit, directory } = level;
    const files = this.#open(version, directory);
    const anon = statField(files.stat.read(), ANON[version]);
    const current = toNumber(files.current.read());
    if (anon === undefined) return undefined;
    return { limit, anon, current: current ?? anon, version, path: directory };
  }

  /** Where the anonymous bytes stand: a line of a file. */
  statFile(): { file: string; name: string; limit: number | undefined } | undefined {
    const level = this.#limitingLevel();
    if (level === undefined) return undefined;
    const file = path.join(this.#root, level.directory, 'memory.stat');
    return { file, name: ANON[level.version], limit: level.limit };
  }

  #open(version: 1 | 2, directory: string) {
    if (this.#files?.directory !== directory) {
      this.#files?.stat.close();
      this.#files?.current.close();
      const file = (name: string) => new OpenFile(path.join(this.#root, directory, name));
      this.#files = {
        directory,
        stat: file('memory.stat'),
        current: file(version === 1 ? 'memory.usage_in_bytes' : 'memory.current'),
      };
    }
    return this.#files;
  }

  /** The group with the lowest limit on the way up, our own when there is none. */
  #limitingLevel(): Level | undefined {
    const hierarchy = this.#hierarchy;
    if (hierarchy === undefined) return undefined;
    const now = performance.now();
    if (this.#level !== undefined && now - this.#levelReadAt < LIMITS_AGE_MS) return this.#level;
    const limitFile = hierarchy.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
    let limit: number | undefined;
    let directory = hierarchy.directories[0] as string;
    for (const candidate of hierarchy.directories) {
      const value = toNumber(readText(path.join(this.#root, candidate, limitFile)));
      if (value === undefined || value >= UNLIMITED) continue;
      if (limit === undefined || value < limit) {
        limit = value;
        directory = candidate;
      }
    }
    this.#level = { version: hierarchy.version, limit, directory };
    this.#levelReadAt = now;
    return this.#level;
  }
}

/** A file of the kernel's that is kept open: each reading at offset 0 is a new one. */
class OpenFile {
  readonly #path: string;
  #descriptor: number | undefined;

  constructor(file: string) {
    this.#path = file;
  }

  read(): string | undefined {
    try {
      this.#descriptor ??= openSync(this.#path, 'r');
      return buffer.toString('latin1', 0, readSync(this.#descriptor, buffer, 0, buffer.length, 0));
    } catch {
      // The group may be gone, or have been made anew under the same name.
      this.close();
      return undefined;
    }
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}

const buffer = Buffer.alloc(16384);

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

/** `max` and what could not be read are `undefined`. */
function toNumber(text: string | undefined): number | undefined {
  const digits = text?.trim();
  return digits !== undefined && /^\d+$/.test(digits) ? Number(digits) : undefined;
}

/** The number in a line "name number". */
function statField(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  const start = text.startsWith(`${name} `) ? 0 : text.indexOf(`\n${name} `) + 1;
  if (start === 0 && !text.startsWith(`${name} `)) return undefined;
  return toNumber(text.slice(start + name.length + 1, text.indexOf('\n', start)));
}
