import { type FileHandle, open } from 'node:fs/promises';
import { StateError } from '../errors';
import { Serial } from '../serial';
import { reason, SpillCorruptionError, SpillError } from './errors';
import { checksum, type FrameHeader, headerBytes, hex, readHeader } from './frame';

/** What is to be read. */
export interface FrameExtent {
  file: string;
  /** Bytes of all frames. */
  bytes: number;
  frames: number;
  /** Bytes of the largest payload: no damaged length makes a reader allocate more. */
  largest: number;
}

/** Reads the payloads of a spill file in order, checking each. */
export class FrameReader {
  readonly #extent: FrameExtent;
  readonly #onClose: () => void;
  readonly #calls = new Serial();
  readonly #header = Buffer.alloc(headerBytes);
  #handle: FileHandle | undefined;
  /** Where the next payload's header begins. */
  #offset = 0;
  #number = 0;
  #closed = false;

  constructor(extent: FrameExtent, onClose: () => void) {
    this.#extent = extent;
    this.#onClose = onClose;
  }

  /** Bytes that a buffer needs for any payload of up to `payload` bytes. */
  static bufferBytes(payload: number): number {
    return payload + headerBytes;
  }

  /**
   * The next payload; `undefined` after the last. It lies at the beginning of `buffer`, or, without
   * one that is large enough, in a Buffer of its own.
   *
   * @throws SpillCorruptionError, SpillError, StateError
   */
  next(buffer?: Buffer): Promise<Buffer | undefined> {
    return this.#calls.run(() => this.#next(buffer));
  }

  /** Closes the file. Idempotent. */
  close(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#closed = true;
    this.#onClose();
    return this.#calls.run(async () => {
      const handle = this.#handle;
      this.#handle = undefined;
      await handle?.close();
    });
  }

  async #next(buffer: Buffer | undefined): Promise<Buffer | undefined> {
    const { file, frames, largest } = this.#extent;
    if (this.#closed) {
      throw new StateError('ERR_OOM_GUARD_CLOSED', `The spill file ${file} is closed`);
    }
    if (this.#number === frames) return undefined;
    if (this.#handle === undefined) {
      this.#handle = await this.#open();
      await this.#fill(this.#header, headerBytes, 0);
    }
    const offset = this.#offset;
    const header = readHeader(this.#header, this.#number, { file, offset, room: largest });
    // The header behind the payload comes with it: one call a batch.
    const last = this.#number + 1 === frames;
    const wanted = header.length + (last ? 0 : headerBytes);
    const target =
      buffer !== undefined && buffer.length >= wanted ? buffer : Buffer.allocUnsafeSlow(wanted);
    await this.#fill(target, wanted, offset + headerBytes);
    const payload = target.subarray(0, header.length);
    this.#check(header, payload, offset);
    if (!last) target.copy(this.#header, 0, header.length, wanted);
    this.#number += 1;
    this.#offset += headerBytes + header.length;
    return payload;
  }

  #check(header: FrameHeader, payload: Buffer, offset: number): void {
    const found = checksum(this.#header, payload);
    if (found !== header.checksum) {
      throw new SpillCorruptionError(
        this.#extent.file,
        offset,
        `checksum ${hex(header.checksum)}`,
        hex(found),
      );
    }
  }

  async #open(): Promise<FileHandle> {
    const { file } = this.#extent;
    try {
      return await open(file, 'r');
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #fill(target: Buffer, wanted: number, position: number): Promise<void> {
    for (let done = 0; done < wanted; ) {
      const { bytesRead } = await (this.#handle as FileHandle)
        .read(target, done, wanted - done, position + done)
        .catch((error: unknown) => {
          throw this.#failure(error);
        });
      if (bytesRead === 0) {
        throw new SpillCorruptionError(
          this.#extent.file,
          this.#offset,
          `${this.#extent.bytes} bytes in the file`,
          `its end at byte ${position + done}`,
        );
      }
      done += bytesRead;
    }
  }

  #failure(error: unknown): SpillError {
    const { file } = this.#extent;
    return new SpillError(
      'ERR_OOM_GUARD_SPILL_IO',
      file,
      `Cannot read the spill file ${file}: ${reason(error)}`,
      { cause: error },
    );
  }
}
