import { mkdir, rm, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { StateError } from '../../errors';
import type { DuckDBSettings } from './settings';

const NO_ROOM = /^0(\.0+)? bytes$/;

/**
 * Makes sure that DuckDB can spill: without a directory for it a lowered limit fails queries instead.
 *
 * @throws StateError `ERR_OOM_GUARD_TEMP_DIRECTORY` that says what is wrong with it
 */
export async function checkTempDirectory(settings: DuckDBSettings): Promise<void> {
  const directory = await settings.read('temp_directory');
  if (directory === '') {
    throw unusable("is not set, so DuckDB can't spill", undefined);
  }
  if (NO_ROOM.test(await settings.read('max_temp_directory_size'))) {
    throw unusable(`(${directory}) may hold nothing: max_temp_directory_size is 0`, undefined);
  }
  const probe = path.join(directory, `.oom-guard-${process.pid}-${Date.now()}`);
  let made: string | undefined;
  try {
    made = await mkdir(directory, { recursive: true });
    await writeFile(probe, '');
  } catch (error) {
    throw unusable(`(${directory}) cannot be written to`, error);
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
    if (made !== undefined) await removeEmpty(directory, made);
  }
}

/** DuckDB makes it when it is needed: what was made for the check goes, from `leaf` up to `root`. */
async function removeEmpty(leaf: string, root: string): Promise<void> {
  let directory = path.resolve(leaf);
  try {
    while (directory.startsWith(path.resolve(root))) {
      await rmdir(directory);
      directory = path.dirname(directory);
    }
  } catch {
    // Somebody uses it already.
  }
}

/** Sets it; DuckDB refuses to change one that it has used. */
export async function useTempDirectory(settings: DuckDBSettings, directory: string): Promise<void> {
  try {
    await settings.setTempDirectory(directory);
  } catch (error) {
    throw unusable(`cannot be changed to ${directory}`, error);
  }
}

function unusable(what: string, cause: unknown): StateError {
  const reason = cause instanceof Error ? `: ${cause.message}` : '';
  return new StateError(
    'ERR_OOM_GUARD_TEMP_DIRECTORY',
    `DuckDB's temp_directory ${what}${reason}. Set one on a disk with room, or pass tempDirectory`,
    { cause },
  );
}
