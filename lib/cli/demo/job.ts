/** The demo's child process: one job, with or without the guard, telling its parent how it goes. */
import { liveBytes, startCounting } from '../../counting';
import { createMemoryGuard, type MemoryGuard } from '../../guard';
import type { MemoryReservation } from '../../pool';
import { holdAsObjects, holdInBuffers } from './held-rows';
import type { JobMessage, JobSpec } from './protocol';
import {
  type Gate,
  openGate,
  type Progress,
  type Reserved,
  type Sorted,
  sortLineitem,
} from './sort-job';
import { startThumbnails } from './thumbnails';

/** How often the parent hears from us, milliseconds. */
const samplePeriod = 50;

async function main(spec: JobSpec): Promise<void> {
  // Nobody to report to, nobody to clean up after us: a job without its parent is over.
  process.on('disconnect', orphaned);
  startCounting();
  const guard =
    spec.guardLimit === null
      ? undefined
      : createMemoryGuard({
          limit: spec.guardLimit,
          mode: 'enforce',
          // This one task makes room for itself by spilling, which on a busy machine takes longer than
          // the breaker's tenth of a second; what DuckDB and sharp never reserve stands on top meanwhile.
          breaker: { holdMs: 5000 },
          // Where nothing can be counted yet the demo still runs, on V8's numbers alone.
          allowDegraded: process.platform !== 'linux',
        });
  const progress: Progress = { rows: 0, phase: 'reading', spilled: 0 };
  const sample = sampler(progress, guard);
  const timer = setInterval(sample, samplePeriod);
  const thumbnails = await startThumbnails();
  try {
    const sorted = await withDuckDB(spec, progress, guard);
    await thumbnails.stop();
    sample();
    send({ type: 'result', ...sorted, thumbnails: thumbnails.count });
  } finally {
    clearInterval(timer);
    await thumbnails.stop();
    guard?.close();
  }
}

async function withDuckDB(
  spec: JobSpec,
  progress: Progress,
  guard: MemoryGuard | undefined,
): Promise<Sorted> {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:', {
    threads: '2',
    memory_limit: '100MB',
    temp_directory: spec.spillDirectory,
    // The job sorts anyway.
    preserve_insertion_order: 'false',
  });
  const connection = await instance.connect();
  const run = (gate: Gate) =>
    sortLineitem(
      connection,
      spec.file,
      spec.spillDirectory,
      spec.kind === 'buffers' ? holdInBuffers() : holdAsObjects(),
      gate,
      progress,
    );
  try {
    if (!guard) return await run(openGate);
    return await guard.run('sort lineitem', (task) =>
      run({
        batches: (source) => task.batches(source),
        reserve: (name, where, spill) => reserved(task.reserve(name, { in: where, spill })),
      }),
    );
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The job asks before it makes its rows, so nothing of a request is allocated yet. */
function reserved(reservation: MemoryReservation): Reserved {
  return {
    tryGrow: (bytes) => reservation.tryGrow(bytes, { alreadyAllocated: 0 }),
    grow: (bytes) => reservation.grow(bytes, { alreadyAllocated: 0 }),
    allocated: (bytes) => reservation.allocated(bytes),
    shrink: (bytes) => reservation.shrink(bytes),
  };
}

function sampler(progress: Progress, guard: MemoryGuard | undefined): () => void {
  const began = performance.now();
  return () => {
    const { rss, heapUsed } = process.memoryUsage();
    send({
      type: 'sample',
      at: performance.now() - began,
      live: liveBytes(),
      heap: heapUsed,
      rss,
      refusals: guard ? sum(Object.values(guard.stats().refusals)) : 0,
      ...progress,
    });
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function send(message: JobMessage): void {
  process.send?.(message);
}

function orphaned(): void {
  process.exit(1);
}

main(JSON.parse(process.argv[2] ?? 'null') as JobSpec).then(
  () => {
    process.off('disconnect', orphaned);
    process.disconnect?.();
  },
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
