import { randomBytes } from 'node:crypto';
import { lstat, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { hasEnded, ownIdentity, type ProcessIdentity } from './process-identity';

const form = /^oom-guard-spill-(\d{1,10})-(\d{1,16})-([0-9a-f]{8})-[0-9a-f]{12}$/;

/** A name for a directory of this process that no other has. */
export function ownName(): string {
  const { pid, startTime, space } = ownIdentity();
  return `oom-guard-spill-${pid}-${startTime}-${space}-${randomBytes(6).toString('hex')}`;
}

function ownerOf(name: string): ProcessIdentity | undefined {
  const [, pid, startTime, space] = form.exec(name) ?? [];
  return space === undefined
    ? undefined
    : { pid: Number(pid), startTime: Number(startTime), space };
}

/**
 * Removes the spill directories in `parent` whose process has ended without doing so itself: killed,
 * or crashed. What belongs to a living process, to one of another container, boot or machine, to
 * another user, or is no spill directory at all is left alone.
 *
 * @returns the directories that were removed. Never rejects: what cannot be removed is left
 */
export async function sweepSpillDirectories(parent: string): Promise<string[]> {
  const removed: string[] = [];
  const names = await readdir(parent).catch((): string[] => []);
  for (const name of names) {
    const owner = ownerOf(name);
    if (owner === undefined || !hasEnded(owner)) continue;
    const directory = path.join(parent, name);
    try {
      const status = await lstat(directory);
      // In a directory that everybody may write to, anybody may have made this, a link too.
      if (!status.isDirectory() || (process.getuid && status.uid !== process.getuid())) continue;
      await rm(directory, { recursive: true, force: true });
      removed.push(directory);
    } catch {
      // Somebody else sweeps too, or may not: the next start tries again.
    }
  }
  return removed;
}
