import { type FileHandle, open, rm } from 'node:fs/promises';
import { StateError } from '../errors';
import { Serial } from '../serial';
import type { SpillCodec } from './codec';
import { isDiskFull, reason, SpillCodecError, SpillError, SpillSpaceError } from './errors';
import { frameHeader, headerBytes, maxPayloadBytes } from './frame';
import { FrameReader } from './frame-reader';

/** What a file asks of its directory. Sizes in bytes. */
export interface SpillBudget {
  /** Takes bytes of the budget, or gives them back when negative. Throws when there are too few. */
  claim(bytes: number, file: string): void;
  used(): number;
  readonly maxBytes: number | undefined;
  /** The file is gone. */
  closed(): void;
}

/**
 * Batches on disk: appended one after the other, read back in the same order. Made by
 * `SpillDirectory.createFile`; removed by `close()` or with its directory.
 */
export class SpillFile<Batch> implements AsyncDisposable {
  /** Where it is. */
  readonly path: string;
  readonly #codec: SpillCodec<Batch>;
  readonly #budget: SpillBudget;
  readonly #writes = new Serial();
  readonly #readers = new Set<FrameReader>();
  #handle: FileHandle | undefined;
  #created = false;
  #bytes = 0;
  #batches = 0;
  #largest = 0;
  #closing: Promise<void> | undefined;

  /** Use `SpillDirectory.createFile`. */
  constructor(path: string, codec: SpillCodec<Batch>, budget: SpillBudget) {
    this.path = path;
    this.#codec = codec;
    this.#budget = budget;
  }

  /** Size on disk, bytes: the batches as encoded and 16 bytes for each. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Batches in it. */
  get batches(): number {
    return this.#batches;
  }

  /** The largest batch as encoded, bytes: what reading it back takes at once. */
  get largestBatchBytes(): number {
    return this.#largest;
  }

  /**
   * Writes one batch behind the last one. Several calls are done in order. Whenever it rejects, the
   * file is as it was before, and can be read and appended to.
   *
   * @throws SpillCodecError `ERR_OOM_GUARD_SPILL_CODEC` when the batch cannot be encoded
   * @throws SpillSpaceError `ERR_OOM_GUARD_SPILL_DISK_FULL`, `ERR_OOM_GUARD_SPILL_BUDGET`
   * @throws SpillError `ERR_OOM_GUARD_SPILL_IO`
   * @throws StateError `ERR_OOM_GUARD_CLOSED`
   */
  append(batch: Batch): Promise<void> {
    return this.#writes.run(async () => {
      this.#checkOpen();
      const payload = this.#encode(batch);
      try {
        await this.#write(payload);
      } finally {
        this.#codec.release?.(payload);
      }
    });
  }

  /**
   * Closes the file for now, so that files that wait to be read hold no descriptor. Appending opens
   * it again.
   */
  rest(): Promise<void> {
    return this.#writes.run(async () => {
      try {
        await this.#closeHandle();
      } catch (error) {
        // Network file systems may find out no earlier that there is no room.
        throw this.#failure(error, this.#bytes);
      }
    });
  }

  /**
   * The batches, first to last, with one of them in memory at a time. Sees those that are there when
   * it starts; several iterations do not disturb each other. Appending meanwhile is allowed.
   *
   * @throws SpillCorruptionError `ERR_OOM_GUARD_SPILL_CORRUPT` when what is read is not what was written
   * @throws SpillCodecError `ERR_OOM_GUARD_SPILL_CODEC`
   * @throws SpillError `ERR_OOM_GUARD_SPILL_IO`
   * @throws StateError `ERR_OOM_GUARD_CLOSED`
   */
  async *read(): AsyncGenerator<Batch, void, undefined> {
    const reader = this.openReader();
    try {
      for (;;) {
        const bytes = await reader.next();
        if (bytes === undefined) return;
        yield this.decode(bytes);
      }
    } finally {
      await reader.close();
    }
  }

  /** The same as {@link read}. */
  [Symbol.asyncIterator](): AsyncGenerator<Batch, void, undefined> {
    return this.read();
  }

  /** Reads the batches of the moment as bytes, for whoever decodes them himself. Close it. */
  openReader(): FrameReader {
    this.#checkOpen();
    const extent = {
      file: this.path,
      bytes: this.#bytes,
      frames: this.#batches,
      largest: this.#largest,
    };
    const reader = new FrameReader(extent, () => this.#readers.delete(reader));
    this.#readers.add(reader);
    return reader;
  }

  /** Decodes what a reader gave, which must have a Buffer of its own. */
  decode(bytes: Buffer): Batch {
    try {
      return this.#codec.decode(bytes);
    } catch (error) {
      throw new SpillCodecError(this.path, 'decode', this.#codec.name, error);
    }
  }

  /** Closes and removes it. Reading it ends with an error. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #encode(batch: Batch): Uint8Array {
    let payload: unknown;
    try {
      payload = this.#codec.encode(batch);
      if (!(payload instanceof Uint8Array)) throw new TypeError('it gave no Uint8Array');
      if (payload.byteLength > maxPayloadBytes) {
        throw new RangeError(`${payload.byteLength} bytes are more than ${maxPayloadBytes}`);
      }
    } catch (error) {
      throw new SpillCodecError(this.path, 'encode', this.#codec.name, error);
    }
    return payload;
  }

  async #write(payload: Uint8Array): Promise<void> {
    const bytes = headerBytes + payload.byteLength;
    this.#budget.claim(bytes, this.path);
    try {
      this.#handle ??= await this.#open();
      await writeAll(this.#handle, [frameHeader(this.#batches, payload), payload], this.#bytes);
    } catch (error) {
      this.#budget.claim(-bytes, this.path);
      // What had no room as a whole need not lie about in part.
      await this.#handle?.truncate(this.#bytes).catch(() => undefined);
      throw this.#failure(error, bytes);
    }
    this.#bytes += bytes;
    this.#batches += 1;
    this.#largest = Math.max(this.#largest, payload.byteLength);
  }

  async #open(): Promise<FileHandle> {
    const handle = await open(this.path, this.#created ? 'r+' : 'wx+', 0o600);
    this.#created = true;
    return handle;
  }

  #failure(error: unknown, requested: number): SpillError {
    const { maxBytes } = this.#budget;
    return isDiskFull(error)
      ? new SpillSpaceError(this.path, { requested, used: this.#budget.used(), maxBytes }, error)
      : new SpillError(
          'ERR_OOM_GUARD_SPILL_IO',
          this.path,
          `Cannot write to the spill file ${this.path}: ${reason(error)}`,
          { cause: error },
        );
  }

  async #closeHandle(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }

  async #close(): Promise<void> {
    await this.#writes.run(() => this.#closeHandle()).catch(() => undefined);
    await Promise.all([...this.#readers].map((reader) => reader.close()));
    try {
      if (this.#created) await rm(this.path, { force: true });
    } finally {
      this.#budget.claim(-this.#bytes, this.path);
      this.#budget.closed();
    }
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new StateError('ERR_OOM_GUARD_CLOSED', `The spill file ${this.path} is closed`);
    }
  }
}

async function writeAll(
  handle: FileHandle,
  parts: readonly Uint8Array[],
  position: number,
): Promise<void> {
  const { bytesWritten } = await handle.writev(parts as Uint8Array[], position);
  // Nearly always that was all of it. A disk that is filling up takes a part and fails the next.
  let skip = bytesWritten;
  let at = position + bytesWritten;
  for (const part of parts) {
    let done = Math.min(skip, part.byteLength);
    skip -= done;
    while (done < part.byteLength) {
      const { bytesWritten: more } = await handle.write(part, done, part.byteLength - done, at);
      done += more;
      at += more;
    }
  }
}
