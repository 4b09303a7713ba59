import { collectYoungGarbage } from '../../reclaim';
import type { SpillDirectory } from '../spill-directory';
import type { SpillFile } from '../spill-file';
import type { Cursor } from './cursor';
import type { Merge } from './merge';
import type { RowKind, RowSink, SorterSizes } from './row-kind';

/** Bytes of values that are written before the garbage of it is collected. */
const tidyBytes = 2 * 2 ** 20;

/** Sorted runs on disk, in the order in which their rows were pushed. */
export class Runs<Batch> {
  readonly #kind: RowKind<Batch>;
  readonly #sizes: SorterSizes;
  readonly #directory: SpillDirectory;
  #runs: SpillFile<Batch>[] = [];
  #written = 0;
  #writtenBytes = 0;

  constructor(kind: RowKind<Batch>, sizes: SorterSizes, directory: SpillDirectory) {
    this.#kind = kind;
    this.#sizes = sizes;
    this.#directory = directory;
  }

  /** Runs that are there. */
  get count(): number {
    return this.#runs.length;
  }

  /** Runs ever written. */
  get written(): number {
    return this.#written;
  }

  /** Bytes ever written. */
  get writtenBytes(): number {
    return this.#writtenBytes;
  }

  /** Memory that writing a run takes, bytes: one batch is filled while another is written. */
  get writeBytes(): number {
    return 2 * this.#sizes.batch;
  }

  /** Memory that reading `runs`, or all, takes, bytes. */
  readBytes(runs: readonly SpillFile<Batch>[] = this.#runs): number {
    return runs.reduce((bytes, run) => bytes + this.#kind.readBytes(run), 0);
  }

  /** Cursors for `runs`, or all; their ranks are their places. */
  cursors(runs: readonly SpillFile<Batch>[] = this.#runs): Cursor[] {
    return runs.map((run, rank) => this.#kind.openRun(run, rank));
  }

  /** Writes all rows of `merge` as the last run. Whatever it rejects with, nothing of it is left. */
  async append(merge: Merge<Cursor>): Promise<SpillFile<Batch>> {
    const run = await this.#write(merge);
    this.#runs.push(run);
    return run;
  }

  /** A cursor for a run that was just written. */
  cursor(run: SpillFile<Batch>, rank: number): Cursor {
    return this.#kind.openRun(run, rank);
  }

  /**
   * `size` runs next to each other that hold the fewest bytes. Only neighbours can be merged without
   * rows of the runs between them losing their place.
   */
  smallest(size: number): readonly SpillFile<Batch>[] {
    let from = 0;
    let least = Number.POSITIVE_INFINITY;
    for (let at = 0; at + size <= this.#runs.length; at++) {
      const bytes = this.#runs.slice(at, at + size).reduce((sum, run) => sum + run.bytes, 0);
      if (bytes < least) {
        least = bytes;
        from = at;
      }
    }
    return this.#runs.slice(from, from + size);
  }

  /** Puts the rows of `merge`, which reads `runs`, in their place as one run, and removes them. */
  async replace(runs: readonly SpillFile<Batch>[], merge: Merge<Cursor>): Promise<void> {
    const run = await this.#write(merge);
    this.#runs.splice(this.#runs.indexOf(runs[0] as SpillFile<Batch>), runs.length, run);
    for (const old of runs) await old.close();
  }

  /** Removes all. */
  async close(): Promise<void> {
    const runs = this.#runs;
    this.#runs = [];
    for (const run of runs) await run.close();
  }

  async #write(merge: Merge<Cursor>): Promise<SpillFile<Batch>> {
    const run = this.#directory.createFile(this.#kind.codec);
    const sink = this.#kind.sink(this.#sizes, true);
    let writing: Promise<void> = Promise.resolve();
    let tidied = 0;
    try {
      for (;;) {
        const batch = await collect(merge, sink);
        await writing;
        if (batch === undefined) break;
        if (this.#kind.location === 'heap' && run.bytes - tidied >= tidyBytes) {
          tidied = run.bytes;
          tidyUp();
        }
        writing = run.append(batch);
        // Awaited with the next batch; until then it must not count as unhandled.
        writing.catch(() => undefined);
      }
      await run.rest();
    } catch (error) {
      await writing.catch(() => undefined);
      await run.close();
      throw error;
    }
    this.#written += 1;
    this.#writtenBytes += run.bytes;
    return run;
  }
}

/**
 * V8's serializers keep a table of the objects they have seen, in native memory, until they are
 * collected: together as much as they have written, just when memory is short.
 */
function tidyUp(): void {
  try {
    collectYoungGarbage();
  } catch {
    // Where V8 does not let us it is found later.
  }
}

/** The next batch of `merge`; `undefined` after the last. */
export async function collect<Batch>(
  merge: Merge<Cursor>,
  sink: RowSink<Batch>,
): Promise<Batch | undefined> {
  for (let first = merge.first; first !== undefined; first = merge.first) {
    if (!sink.add(first)) return sink.take();
    if (!merge.advance()) await merge.load();
  }
  return sink.rows > 0 ? sink.take() : undefined;
}
