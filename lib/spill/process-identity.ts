/**
 * Who a directory belongs to: a process, told apart from all that had or will have its number.
 * Numbers are used again, and another container or another boot has processes of the same numbers.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

/** One process, as part of a file name. */
export interface ProcessIdentity {
  pid: number;
  /** When it started, in the kernel's ticks since boot; 0 where that cannot be told. */
  startTime: number;
  /** The boot of the machine, 8 hexadecimal digits. */
  boot: string;
  /** Where its number counts: the pid namespace, as a container has its own, 8 digits. */
  space: string;
}

/** What can be said of a process from here. */
export type ProcessState = 'ended' | 'running' | 'elsewhere' | 'unknown';

/** This process. */
export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startTime: startTimeOf('self') ?? 0, ...ownPlace() };
}

/**
 * Whether a process has ended. `elsewhere`: it was started by this kernel, in another pid namespace,
 * where its number means nothing to us. `unknown`: under another boot, which may be another machine's.
 */
export function stateOf({ pid, startTime, boot, space }: ProcessIdentity): ProcessState {
  const own = ownPlace();
  if (boot !== own.boot) return 'unknown';
  if (space !== own.space) return 'elsewhere';
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and somebody else's.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'ended';
  }
  const running = startTimeOf(pid);
  return startTime !== 0 && running !== undefined && running !== startTime ? 'ended' : 'running';
}

/** Field 22 of /proc/<pid>/stat; `undefined` outside Linux and for processes that are not shown. */
function startTimeOf(pid: number | 'self'): number | undefined {
  if (!seesOwnProcesses()) return undefined;
  const stat = readOr(`/proc/${pid}/stat`);
  // The second field is the command in parentheses and may hold anything, parentheses too.
  const field = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return field !== undefined && /^\d+$/.test(field) ? Number(field) : undefined;
}

let ownProcesses: boolean | undefined;

/** Whether /proc numbers processes as we do: in some containers it is that of the host. */
function seesOwnProcesses(): boolean {
  if (ownProcesses === undefined) {
    try {
      ownProcesses = readlinkSync('/proc/self') === String(process.pid);
    } catch {
      ownProcesses = false;
    }
  }
  return ownProcesses;
}

let place: Pick<ProcessIdentity, 'boot' | 'space'> | undefined;

function ownPlace(): Pick<ProcessIdentity, 'boot' | 'space'> {
  if (place === undefined) {
    let namespace = '';
    try {
      namespace = readlinkSync('/proc/self/ns/pid');
    } catch {
      // Not Linux: there is one space.
    }
    place = { boot: digits(readOr('/proc/sys/kernel/random/boot_id')), space: digits(namespace) };
  }
  return place;
}

function digits(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
