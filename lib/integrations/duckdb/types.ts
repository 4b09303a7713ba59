/**
 * What is used of `@duckdb/node-api`, an optional peer: its own classes fit, and nothing is imported
 * from it.
 */

/** What a query gives back, as far as it is used here. */
export interface DuckDBResultLike {
  getRowsJS(): Promise<readonly (readonly unknown[])[]>;
}

/** A `DuckDBConnection`. */
export interface DuckDBConnectionLike {
  run(sql: string): Promise<DuckDBResultLike>;
  closeSync(): void;
}

/** A `DuckDBInstance`. */
export interface DuckDBInstanceLike {
  connect(): Promise<DuckDBConnectionLike>;
}
