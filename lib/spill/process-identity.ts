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
  /** Where its number counts: this boot and this pid namespace, 8 hexadecimal digits. */
  space: string;
}

/** This process. */
export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startTime: startTimeOf('self') ?? 0, space: ownSpace() };
}

/**
 * Whether a process is known to have ended. False when that cannot be told: for processes of
 * another container or machine, and of another boot (which may be another machine's).
 */
export function hasEnded({ pid, startTime, space }: ProcessIdentity): boolean {
  if (space !== ownSpace()) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and somebody else's.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return true;
  }
  const running = startTimeOf(pid);
  return startTime !== 0 && running !== undefined && running !== startTime;
}

/** Field 22 of /proc/<pid>/stat; `undefined` outside Linux and for processes that are not shown. */
function startTimeOf(pid: number | 'self'): number | undefined {
  const stat = readOr(`/proc/${pid}/stat`);
  // The second field is the command in parentheses and may hold anything, parentheses too.
  const field = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return field !== undefined && /^\d+$/.test(field) ? Number(field) : undefined;
}

let space: string | undefined;

function ownSpace(): string {
  if (space === undefined) {
    const boot = readOr('/proc/sys/kernel/random/boot_id');
    let namespace = '';
    try {
      namespace = readlinkSync('/proc/self/ns/pid');
    } catch {
      // Not Linux: there is one space.
    }
    space = createHash('sha256').update(`${boot}\n${namespace}`).digest('hex').slice(0, 8);
  }
  return space;
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
