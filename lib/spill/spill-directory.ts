import { accessSync, constants, existsSync, mkdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { ArgumentTypeError, StateError } from '../errors';
import { onExit } from '../on-exit';
import { parseSize, type Size } from '../sizes';
import type { SpillCodec } from './codec';
import { SpillDirectoryError, SpillSpaceError } from './errors';
import { giveLifeSign } from './life-sign';
import { SpillFile } from './spill-file';
import { ownName, sweepSpillDirectories } from './sweep';

/** Options of {@link SpillDirectory}. */
export interface SpillDirectoryOptions {
  /** Where the directory is made; made too if it is missing. Default `os.tmpdir()`. */
  parent?: string | undefined;
  /** What all files in it may hold together: bytes, or text such as `'10GB'`. Default no limit. */
  maxBytes?: Size | undefined;
}

/** For this long what one sweep of a parent has seen is not looked at again, ms. */
const sweepInterval = 60_000;
const lastSweeps = new Map<string, number>();

/**
 * A directory of its own for spill files, readable by this user only. It is removed with everything
 * in it by `close()` and when the process exits or is interrupted (SIGINT, SIGTERM, SIGHUP). What
 * killed processes have left beside it is swept when it is made, at most once a minute.
 */
export class SpillDirectory implements AsyncDisposable {
  /** Where it is. */
  readonly path: string;
  /** The budget, bytes; `undefined` when there is none. */
  readonly maxBytes: number | undefined;
  /** Resolves with the directories of dead processes that were removed. Never rejects. */
  readonly swept: Promise<readonly string[]>;
  readonly #files = new Set<SpillFile<unknown>>();
  readonly #forget: () => void;
  readonly #endLifeSign: () => void;
  #used = 0;
  #made = 0;
  #closing: Promise<void> | undefined;

  /**
   * Makes it at once.
   *
   * @throws SpillDirectoryError `ERR_OOM_GUARD_SPILL_DIRECTORY` when it cannot be made or written to
   * @throws ArgumentTypeError or ArgumentRangeError for the options
   */
  constructor({ parent = os.tmpdir(), maxBytes }: SpillDirectoryOptions = {}) {
    if (typeof parent !== 'string' || parent === '') {
      throw new ArgumentTypeError(
        'ERR_OOM_GUARD_INVALID_ARGUMENT',
        'parent',
        parent,
        'the path of a directory',
      );
    }
    this.maxBytes = maxBytes === undefined ? undefined : parseSize(maxBytes, { name: 'maxBytes' });
    const absolute = path.resolve(parent);
    this.path = path.join(absolute, ownName());
    try {
      makeWithParents(absolute);
      mkdirSync(this.path, { mode: 0o700 });
      accessSync(this.path, constants.W_OK | constants.X_OK);
    } catch (error) {
      throw new SpillDirectoryError(absolute, error);
    }
    this.#forget = onExit(() => rmSync(this.path, { recursive: true, force: true }));
    this.#endLifeSign = giveLifeSign(this.path);
    const now = performance.now();
    if (now - (lastSweeps.get(absolute) ?? Number.NEGATIVE_INFINITY) < sweepInterval) {
      this.swept = Promise.resolve([]);
    } else {
      lastSweeps.set(absolute, now);
      this.swept = sweepSpillDirectories(absolute);
    }
  }

  /** Bytes that its files hold. */
  get used(): number {
    return this.#used;
  }

  /** Whether it was closed. */
  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * An empty file for batches that `codec` can encode. It comes into being with the first append.
   *
   * @throws StateError `ERR_OOM_GUARD_CLOSED`
   */
  createFile<Batch>(codec: SpillCodec<Batch>): SpillFile<Batch> {
    if (this.closed) {
      throw new StateError('ERR_OOM_GUARD_CLOSED', `The spill directory ${this.path} is closed`);
    }
    this.#made += 1;
    const file = new SpillFile(path.join(this.path, `${this.#made}.spill`), codec, {
      claim: (bytes, file) => this.#claim(bytes, file),
      used: () => this.#used,
      maxBytes: this.maxBytes,
      closed: () => this.#files.delete(file as SpillFile<unknown>),
    });
    this.#files.add(file as SpillFile<unknown>);
    return file;
  }

  /** Closes and removes its files and itself. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #claim(bytes: number, file: string): void {
    if (this.maxBytes !== undefined && bytes > 0 && this.#used + bytes > this.maxBytes) {
      throw new SpillSpaceError(file, {
        requested: bytes,
        used: this.#used,
        maxBytes: this.maxBytes,
      });
    }
    this.#used += bytes;
  }

  async #close(): Promise<void> {
    try {
      await Promise.all([...this.#files].map((file) => file.close()));
    } finally {
      this.#endLifeSign();
      await rm(this.path, { recursive: true, force: true });
      this.#forget();
    }
  }
}

/**
 * Node's own recursive `mkdir` never returns where the kernel answers ENOENT although the parent is
 * there, as /proc does.
 */
function makeWithParents(directory: string): void {
  if (existsSync(directory)) return;
  const parent = path.dirname(directory);
  if (parent !== directory) makeWithParents(parent);
  try {
    mkdirSync(directory);
  } catch (error) {
    // Somebody else may have been quicker.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
