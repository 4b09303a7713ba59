import type { MemoryBreakdownEntry } from '../../counting';
import { bytesOf } from './errors';
import type { DuckDBConnectionLike } from './types';

/** What DuckDB's buffer manager says that it holds: what `memory_limit` is compared with. Bytes. */
export interface DuckDBMemory {
  used: number;
  tags: MemoryBreakdownEntry[];
}

const KIB = 1024;
const BY_TAG =
  'SELECT tag, memory_usage_bytes::DOUBLE, temporary_storage_bytes::DOUBLE FROM duckdb_memory() ' +
  'WHERE memory_usage_bytes > 0 OR temporary_storage_bytes > 0';

/** A database's settings and statistics, read and written on a connection of its own. */
export class DuckDBSettings {
  readonly #connection: DuckDBConnectionLike;

  constructor(connection: DuckDBConnectionLike) {
    this.#connection = connection;
  }

  /** What is held now, by tag; what is zero is left out. Milliseconds while queries run. */
  async memory(): Promise<DuckDBMemory> {
    const rows = await (await this.#connection.run(BY_TAG)).getRowsJS();
    const tags = rows.map(([tag, bytes, spilledBytes]) => ({
      tag: String(tag),
      bytes: Number(bytes),
      spilledBytes: Number(spilledBytes),
    }));
    return { used: tags.reduce((sum, { bytes }) => sum + bytes, 0), tags };
  }

  /**
   * Moves `memory_limit`. False when DuckDB could not evict enough for the new one: the old limit
   * then stands.
   */
  async setMemoryLimit(bytes: number): Promise<boolean> {
    try {
      await this.#connection.run(`SET memory_limit = '${Math.floor(bytes / KIB)}KiB'`);
      return true;
    } catch (error) {
      if (error instanceof Error && error.message.includes('Failed to change memory limit')) {
        return false;
      }
      throw error;
    }
  }

  /** Gives `memory_limit` back what was read of it, such as `18.8 GiB`, as exactly as that is. */
  async restoreMemoryLimit(text: string): Promise<void> {
    const bytes = bytesOf(text);
    // DuckDB cuts what it prints: 18.8 GiB to the byte would read 18.7. A thousandth more does not.
    const exact = bytes === undefined ? quote(text) : `${Math.ceil((bytes * 1.0005) / KIB)}KiB`;
    await this.#connection.run(`SET memory_limit = '${exact}'`);
  }

  /**
   * Sets how many threads run queries. Waits for the pipelines that run (seconds), and every other
   * setting waits with it: only for when nothing runs.
   */
  async setThreads(threads: number): Promise<void> {
    await this.#connection.run(`SET threads = ${threads}`);
  }

  async setTempDirectory(directory: string): Promise<void> {
    await this.#connection.run(`SET temp_directory = '${quote(directory)}'`);
  }

  /** A setting as DuckDB prints it. */
  async read(name: 'memory_limit' | 'threads' | 'temp_directory' | 'max_temp_directory_size') {
    const result = await this.#connection.run(`SELECT current_setting('${name}')::VARCHAR`);
    return String((await result.getRowsJS())[0]?.[0] ?? '');
  }

  close(): void {
    this.#connection.closeSync();
  }
}

function quote(text: string): string {
  return text.replaceAll("'", "''");
}
