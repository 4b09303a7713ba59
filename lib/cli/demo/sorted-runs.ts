/** Sorted runs of records in one temporary file: written when memory is short, merged at the end. */
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { type RecordBlock, recordBlock, recordBytes, recordDoubles, recordWords } from './lineitem';
import type { Cursor, SortedBlock } from './merge';

/** Bytes of a run read at once while merging. */
const readBytes = 2_520 * recordBytes;

/** Where a run lies in the file, bytes. */
interface Extent {
  start: number;
  end: number;
}

/** A file of sorted runs. Close it: the file is removed then. */
export class SortedRuns implements AsyncDisposable {
  readonly #file: string;
  #handle: FileHandle | undefined;
  readonly #runs: Extent[] = [];
  #written = 0;

  /** The file is made in `directory`, which must exist, when the first run is written. */
  constructor(directory: string) {
    this.#file = path.join(directory, 'sorted-runs.bin');
  }

  /** Bytes written so far, all runs together. */
  get bytes(): number {
    return this.#written;
  }

  /** Runs written. */
  get count(): number {
    return this.#runs.length;
  }

  /** Memory that reading all runs back takes, bytes. */
  get readBytes(): number {
    return this.#runs.length * readBytes;
  }

  /** Appends one run. One call at a time. */
  async write(blocks: AsyncIterable<SortedBlock>): Promise<void> {
    this.#handle ??= await open(this.#file, 'wx+', 0o600);
    const start = this.#written;
    for await (const { bytes } of blocks) {
      await writeAll(this.#handle, bytes, this.#written);
      this.#written += bytes.length;
    }
    this.#runs.push({ start, end: this.#written });
  }

  /** One cursor for each run. */
  cursors(): Cursor[] {
    const handle = this.#handle;
    return handle ? this.#runs.map((run) => new RunCursor(handle, run)) : [];
  }

  /** Closes and removes the file. Idempotent. */
  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
    await rm(this.#file, { force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Reads one run, a block at a time. */
class RunCursor implements Cursor {
  key = 0;
  readonly #handle: FileHandle;
  #position: number;
  readonly #end: number;
  #block: RecordBlock | undefined;
  #index = 0;
  #rows = 0;

  constructor(handle: FileHandle, run: Extent) {
    this.#handle = handle;
    this.#position = run.start;
    this.#end = run.end;
  }

  copyTo(target: RecordBlock, index: number): void {
    copyRecord(this.#block as RecordBlock, this.#index, target, index);
  }

  advance(): boolean {
    this.#index++;
    if (this.#index >= this.#rows) return false;
    this.key = (this.#block as RecordBlock).keys[this.#index * recordDoubles] as number;
    return true;
  }

  async load(): Promise<boolean> {
    const wanted = Math.min(readBytes, this.#end - this.#position);
    if (wanted === 0) {
      this.#block = undefined;
      return false;
    }
    this.#block ??= recordBlock(Buffer.allocUnsafeSlow(readBytes));
    for (let done = 0; done < wanted; ) {
      const { bytesRead } = await this.#handle.read(
        this.#block.bytes,
        done,
        wanted - done,
        this.#position + done,
      );
      if (bytesRead === 0) throw new Error('the spill file is shorter than what was written to it');
      done += bytesRead;
    }
    this.#position += wanted;
    this.#rows = wanted / recordBytes;
    this.#index = -1;
    return this.advance();
  }
}

/** Copies one record, word by word: quicker than a call for so few bytes. */
export function copyRecord(
  from: RecordBlock,
  index: number,
  to: RecordBlock,
  target: number,
): void {
  const source = from.words;
  const words = to.words;
  let read = index * recordWords;
  let write = target * recordWords;
  for (let i = 0; i < recordWords; i++) words[write++] = source[read++] as number;
}
