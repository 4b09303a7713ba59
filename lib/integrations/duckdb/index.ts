/** `oom-guard/duckdb`: a database that takes what the rest of the process leaves it. */
import { releaseFreeMemory } from '../../counting';
import type { MemoryGuard } from '../../guard';
import { DuckDBGovernor } from './governor';
import { checkOptions, type DuckDBGovernorOptions, decideOptions } from './governor-options';
import { DuckDBSettings } from './settings';
import { checkTempDirectory, useTempDirectory } from './temp-directory';
import type { DuckDBInstanceLike } from './types';

export type { DuckDBGovernor, DuckDBGovernorStats } from './governor';
export type { DuckDBGovernorOptions } from './governor-options';
export { type DuckDBRunner, type RunGuardedOptions, runGuarded } from './run-guarded';
export type { DuckDBConnectionLike, DuckDBInstanceLike, DuckDBResultLike } from './types';

/**
 * Moves a DuckDB database's `memory_limit` as the rest of the process grows and shrinks, from a
 * connection of its own, also while queries run, and keeps what it holds in the books of the guard's
 * pool. Where the guard enforces nothing, `memory_limit` stays as it is. The statistics of
 * `duckdb_memory()` are in `memory()` from then on.
 *
 * Its statements run in libuv's thread pool, as DuckDB's queries do: with as many long queries at once
 * as that has threads (4, unless `UV_THREADPOOL_SIZE` says otherwise) they wait.
 *
 * @throws ArgumentTypeError or ArgumentRangeError (rejects with it) for wrong arguments
 * @throws StateError `ERR_OOM_GUARD_TEMP_DIRECTORY` (rejects with it) when DuckDB has no directory to
 *   spill to that can be written to
 */
export async function governDuckDB(
  instance: DuckDBInstanceLike,
  guard: MemoryGuard,
  options: DuckDBGovernorOptions = {},
): Promise<DuckDBGovernor> {
  checkOptions(instance, guard, options);
  const settings = new DuckDBSettings(await instance.connect());
  try {
    if (options.tempDirectory !== undefined) {
      await useTempDirectory(settings, options.tempDirectory);
    }
    await checkTempDirectory(settings);
    const threads = Number(await settings.read('threads'));
    const memoryLimit = await settings.read('memory_limit');
    const governor = new DuckDBGovernor(
      guard,
      settings,
      (limit) => decideOptions(options, limit, threads),
      memoryLimit,
      releaseFreeMemory,
    );
    await governor.tick();
    return governor;
  } catch (error) {
    settings.close();
    throw error;
  }
}
