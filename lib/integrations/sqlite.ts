/** `oom-guard/sqlite`: what SQLite's page cache can give back. */
import { ArgumentTypeError } from '../errors';

/** A database of `better-sqlite3` (`pragma`) or `node:sqlite` (`exec`). */
export type SqliteLike =
  | { pragma(source: string): unknown }
  | { exec(source: string): unknown; readonly pragma?: undefined };

/**
 * Frees what a SQLite connection can do without (`PRAGMA shrink_memory`): for `guard.onReclaim`.
 *
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function sqliteCache(database: SqliteLike): () => void {
  if (typeof database?.pragma === 'function') {
    return () => {
      database.pragma('shrink_memory');
    };
  }
  if (database !== null && typeof database === 'object' && 'exec' in database) {
    return () => {
      database.exec('PRAGMA shrink_memory');
    };
  }
  throw new ArgumentTypeError(
    'ERR_OOM_GUARD_INVALID_ARGUMENT',
    'database',
    database,
    'a database of better-sqlite3 or node:sqlite',
  );
}
