/**
 * The job itself: reads all line items, holds them until memory is refused, spills what it holds
 * as a sorted run then, and at the end merges everything into one sorted sequence.
 */
import { createHash } from 'node:crypto';
import type { DuckDBConnection } from '@duckdb/node-api';
import { Aggregates } from './aggregate';
import type { HeldRows } from './held-rows';
import { readBatches } from './lineitem';
import { type Cursor, merge, mergeBytes } from './merge';
import type { Aggregate, Sample } from './protocol';
import { SortedRuns } from './sorted-runs';

/** What the job asks for memory: a guard's task, or nobody. Sizes in bytes. */
export interface Gate {
  /** Passes batches through; the guard looks between them. */
  batches<T>(source: AsyncIterable<T>): AsyncIterable<T>;
  /** A reservation; `spill` is called when a request would otherwise be refused. */
  reserve(name: string, where: 'native' | 'heap', spill?: () => Promise<void>): Reserved;
}

/** Bytes asked for. */
export interface Reserved {
  /** Asks for bytes that are not allocated yet; false when there is no room now. */
  tryGrow(bytes: number): boolean;
  /** The same, making room: resolves when granted, rejects when refused for good. */
  grow(bytes: number): Promise<void>;
  /** What was granted has been allocated, and is seen by the counting from here on. */
  allocated(bytes: number): void;
  shrink(bytes: number): void;
}

/** Grants everything: a job without a guard. */
export const openGate: Gate = {
  batches: (source) => source,
  reserve: () => ({
    tryGrow: () => true,
    grow: async () => {},
    allocated: () => {},
    shrink: () => {},
  }),
};

/** Where the job is, for whoever watches it. */
export type Progress = Pick<Sample, 'rows' | 'phase' | 'spilled'>;

/** What came out. */
export interface Sorted {
  /** SHA-256 of the records in order, followed by the aggregates. */
  hash: string;
  /** Rows in the result. */
  rows: number;
  aggregates: Aggregate[];
}

/** Sorts and aggregates `file`; keeps `progress` up to date meanwhile. */
export async function sortLineitem(
  connection: DuckDBConnection,
  file: string,
  spillDirectory: string,
  held: HeldRows,
  gate: Gate,
  progress: Progress,
): Promise<Sorted> {
  const runs = new SortedRuns(spillDirectory);
  let heldBytes = 0;
  let failure: unknown;

  const spill = async () => {
    // Once the merge has begun the rows are in use until the end.
    if (heldBytes === 0 || progress.phase !== 'reading') return;
    progress.phase = 'spilling';
    const bytes = heldBytes;
    heldBytes = 0;
    try {
      await runs.write(watched(merge(held.takeAll()), progress, runs));
    } catch (error) {
      // The guard takes this for a spill that made no room. To the job it means lost rows.
      failure = error;
      throw error;
    }
    rows.shrink(bytes);
    progress.phase = 'reading';
  };
  const rows = gate.reserve('rows', held.where, spill);

  try {
    for await (const batch of gate.batches(readBatches(connection, file, held.batchRows))) {
      const bytes = held.bytesFor(batch.rows);
      if (!rows.tryGrow(bytes)) await rows.grow(bytes);
      if (failure !== undefined) throw failure;
      heldBytes += bytes;
      held.add(batch);
      rows.allocated(bytes);
      progress.rows += batch.rows;
    }
    const merging = gate.reserve('merge', 'native');
    await merging.grow(runs.readBytes + mergeBytes);
    progress.phase = 'merging';
    return await digest([...held.takeAll(), ...runs.cursors()]);
  } finally {
    await runs.close();
  }
}

/** Keeps the count of spilled bytes up to date while a run is written. */
async function* watched<T>(
  blocks: AsyncIterable<T>,
  progress: Progress,
  runs: SortedRuns,
): AsyncGenerator<T> {
  for await (const block of blocks) {
    yield block;
    progress.spilled = runs.bytes;
  }
}

/** Merges, aggregates and hashes. The hash depends on every byte and on their order. */
async function digest(cursors: Cursor[]): Promise<Sorted> {
  const hash = createHash('sha256');
  const aggregates = new Aggregates();
  let rows = 0;
  let blocks = 0;
  for await (const block of merge(cursors)) {
    hash.update(block.bytes);
    aggregates.add(block, block.rows);
    rows += block.rows;
    // In-memory cursors never leave this turn of the event loop: let timers and sharp have theirs.
    if (++blocks % 8 === 0) await new Promise(setImmediate);
  }
  const result = aggregates.result();
  hash.update(JSON.stringify(result));
  return { hash: hash.digest('hex'), rows, aggregates: result };
}
