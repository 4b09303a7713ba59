/** What modules say of their own memory, by purpose, for `memory()`. */

/** What a module holds for one purpose. Sizes in bytes. */
export interface MemoryBreakdownEntry {
  /** The module's own word for the purpose, such as DuckDB's `HASH_TABLE`. */
  tag: string;
  bytes: number;
  /** What of it lies on disk instead. */
  spilledBytes: number;
}

/**
 * What one module says that it holds. It is in live already: this only tells what for, and it is as
 * old as the last time that the module was asked.
 */
export interface MemoryBreakdown {
  name: string;
  entries: readonly MemoryBreakdownEntry[];
}

const sources = new Set<() => MemoryBreakdown>();

/** Has `read` asked at every `memory()` until the function that is returned is called. */
export function addBreakdown(read: () => MemoryBreakdown): () => void {
  const source = () => read();
  sources.add(source);
  return () => {
    sources.delete(source);
  };
}

export function readBreakdowns(): MemoryBreakdown[] {
  return [...sources].map((read) => read());
}
