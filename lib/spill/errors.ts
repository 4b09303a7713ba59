import { inspect } from 'node:util';
import { formatSize } from '../format';

/** Codes of {@link SpillError} and of the classes that extend it. */
export type SpillErrorCode =
  /** The directory cannot be made or written to. */
  | 'ERR_OOM_GUARD_SPILL_DIRECTORY'
  /** The disk, or the user's quota on it, is full. */
  | 'ERR_OOM_GUARD_SPILL_DISK_FULL'
  /** The directory's own budget, `maxBytes`, is used up. */
  | 'ERR_OOM_GUARD_SPILL_BUDGET'
  /** What is read is not what was written. */
  | 'ERR_OOM_GUARD_SPILL_CORRUPT'
  /** A batch cannot be encoded or decoded. */
  | 'ERR_OOM_GUARD_SPILL_CODEC'
  /** Any other failure to read or write. */
  | 'ERR_OOM_GUARD_SPILL_IO';

/** Something about spilling failed. `cause` is the error underneath, if there is one. */
export class SpillError extends Error {
  static {
    SpillError.prototype.name = 'SpillError';
  }

  readonly code: SpillErrorCode;
  /** The file or directory. */
  readonly path: string;

  constructor(code: SpillErrorCode, path: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.path = path;
  }
}

/** The directory for spill files cannot be used. Said when it is opened, not at the first spill. */
export class SpillDirectoryError extends SpillError {
  static {
    SpillDirectoryError.prototype.name = 'SpillDirectoryError';
  }

  constructor(path: string, cause: unknown) {
    super(
      'ERR_OOM_GUARD_SPILL_DIRECTORY',
      path,
      `Cannot make a directory for spill files in ${path}: ${reason(cause)}`,
      { cause },
    );
  }
}

/**
 * No room on the disk, or none in the budget. What had been written before is intact and can be
 * read; nothing of the batch that had no room is left in the file.
 */
export class SpillSpaceError extends SpillError {
  static {
    SpillSpaceError.prototype.name = 'SpillSpaceError';
  }

  /** Bytes that were to be written. */
  readonly requested: number;
  /** Bytes that all spill files of the directory hold. */
  readonly used: number;
  /** The budget, bytes; `undefined` when there is none. */
  readonly maxBytes: number | undefined;

  constructor(
    path: string,
    figures: { requested: number; used: number; maxBytes: number | undefined },
    cause?: unknown,
  ) {
    const { requested, used, maxBytes } = figures;
    const full = cause !== undefined;
    super(
      full ? 'ERR_OOM_GUARD_SPILL_DISK_FULL' : 'ERR_OOM_GUARD_SPILL_BUDGET',
      path,
      `Cannot spill ${formatSize(requested)} to ${path}: ${
        full
          ? `the disk is full (${reason(cause)})`
          : `the budget for spill files is ${formatSize(maxBytes ?? 0)}`
      }, ${formatSize(used)} in use`,
      full ? { cause } : undefined,
    );
    this.requested = requested;
    this.used = used;
    this.maxBytes = maxBytes;
  }
}

/** A spill file is not as it was written: damaged, cut short, or written over. */
export class SpillCorruptionError extends SpillError {
  static {
    SpillCorruptionError.prototype.name = 'SpillCorruptionError';
  }

  /** Where in the file the damaged batch begins, bytes. */
  readonly offset: number;
  /** What should be there, in words. */
  readonly expected: string;
  /** What is there instead, in words. */
  readonly found: string;

  constructor(path: string, offset: number, expected: string, found: string) {
    super(
      'ERR_OOM_GUARD_SPILL_CORRUPT',
      path,
      `The spill file ${path} is corrupt at byte ${offset}: expected ${expected}, found ${found}`,
    );
    this.offset = offset;
    this.expected = expected;
    this.found = found;
  }
}

/** A codec could not encode or decode a batch. `cause` is what it threw. */
export class SpillCodecError extends SpillError {
  static {
    SpillCodecError.prototype.name = 'SpillCodecError';
  }

  readonly operation: 'encode' | 'decode';

  constructor(path: string, operation: 'encode' | 'decode', codec: string, cause: unknown) {
    super(
      'ERR_OOM_GUARD_SPILL_CODEC',
      path,
      `The codec ${codec} cannot ${operation} a batch for ${path}: ${reason(cause)}`,
      { cause },
    );
    this.operation = operation;
  }
}

/** Whether the file system said that there is no room. */
export function isDiskFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** An error's message, or what was thrown instead of one. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : inspect(error, { depth: 0 });
}
