/** What the demo and its child processes tell each other. Sizes in bytes, times in milliseconds. */

/** Where the job keeps its rows. */
export type JobKind = 'buffers' | 'objects';

/** What a child is to do: its only argument, as JSON. */
export interface JobSpec {
  kind: JobKind;
  /** The Parquet file. */
  file: string;
  /** A directory for spill files that the parent makes and removes. */
  spillDirectory: string;
  /** The guard's limit; null for no guard. */
  guardLimit: number | null;
}

/** One look at the child. */
export interface Sample {
  type: 'sample';
  /** Since the child began. */
  at: number;
  /** Live bytes of the counted allocators. */
  live: number;
  /** Used V8 heap. */
  heap: number;
  rss: number;
  /** Written to the spill file so far. */
  spilled: number;
  /** Requests that found no room at first. */
  refusals: number;
  /** Rows read so far. */
  rows: number;
  phase: 'reading' | 'spilling' | 'merging';
}

/** The child's last word. */
export interface JobResult {
  type: 'result';
  /** SHA-256 of all records in their final order and the aggregates. */
  hash: string;
  rows: number;
  thumbnails: number;
  aggregates: Aggregate[];
}

/** Totals of one combination of return flag and line status (TPC-H's query 1). */
export interface Aggregate {
  returnflag: string;
  linestatus: string;
  rows: number;
  quantity: number;
  /** In cents. */
  price: number;
  /** In hundredths of cents. */
  discountedPrice: number;
}

/** Anything a child sends. */
export type JobMessage = Sample | JobResult;
