import { randomBytes } from 'node:crypto';
import { lstat, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { lifeSignGone } from './life-sign';
import { ownIdentity, type ProcessIdentity, stateOf } from './process-identity';

const form = /^oom-guard-spill-(\d{1,10})-(\d{1,16})-([0-9a-f]{8})-([0-9a-f]{8})-[0-9a-f]{12}$/;

/** A name for a directory of this process that no other has. */
export function ownName(): string {
  const { pid, startTime, boot, space } = ownIdentity();
  const unique = randomBytes(6).toString('hex');
  return `oom-guard-spill-${pid}-${startTime}-${boot}-${space}-${unique}`;
}

function ownerOf(name: string): ProcessIdentity | undefined {
  const [, pid, startTime, boot, space] = form.exec(name) ?? [];
  return boot === undefined || space === undefined
    ? undefined
    : { pid: Number(pid), startTime: Number(startTime), boot, space };
}

/**
 * Removes the spill directories in `parent` whose process has ended without doing so itself: killed,
 * or crashed, here or in another container on this machine. What belongs to a living process, to
 * another user, to another boot (which may be another machine's), or is no spill directory at all is
 * left alone.
 *
 * @returns the directories that were removed. Never rejects: what cannot be removed is left
 */
export async function sweepSpillDirectories(parent: string): Promise<string[]> {
  const removed: string[] = [];
  const names = await readdir(parent).catch((): string[] => []);
  for (const name of names) {
    const owner = ownerOf(name);
    if (owner === undefined) continue;
    const directory = path.join(parent, name);
    try {
      const state = stateOf(owner);
      if (state !== 'ended' && !(state === 'elsewhere' && (await lifeSignGone(directory))))
        continue;
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
