import { ArgumentRangeError, ArgumentTypeError } from '../../errors';
import {
  MemoryConsumer,
  type MemoryConsumerOptions,
  type MemoryPool,
  type MemoryReservation,
} from '../../pool';
import { parseSize, type Size } from '../../sizes';
import { SpillDirectory, type SpillDirectoryOptions } from '../spill-directory';
import type { RowKind, SorterSizes } from './row-kind';

/** Whoever hands out reservations: a guard's task, for example. */
export interface ReservationSource {
  reserve(name: string, options: MemoryConsumerOptions): MemoryReservation;
}

/** Options of an `ExternalSorter`. */
export interface ExternalSorterOptions<Batch> {
  /** What is sorted and in which order: `fixedRecords`, `prefixedRecords` or `values`. */
  rows: RowKind<Batch>;
  /** Where memory is reserved: a guard's task, or a pool. */
  memory: ReservationSource | MemoryPool;
  /** Name of the memory consumer. Default `'external sort'`. */
  name?: string | undefined;
  /** Where runs are written: a directory that others use too, or how to make one. */
  directory?: SpillDirectory | SpillDirectoryOptions | undefined;
  /** Sequences on disk that are merged at once, 2 to 1024. Default 32. */
  fanIn?: number | undefined;
  /** Memory is asked for in pieces of this size, 4 KiB to 256 MiB. Default 1 MiB. */
  blockBytes?: Size | undefined;
  /** Size of the batches on disk and of the result, 1 KiB to 64 MiB. Default 256 KiB. */
  batchBytes?: Size | undefined;
  /**
   * Whether a batch of the result is overwritten when the next one is asked for, which saves making
   * a Buffer for each. Records only. Default false.
   */
  reuseBatches?: boolean | undefined;
  /** Ends the sort: every call rejects with its reason, everything is given back. */
  signal?: AbortSignal | undefined;
}

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const defaultFanIn = 32;
const mostFanIn = 1024;

/** @throws ArgumentTypeError or ArgumentRangeError */
export function sorterSizes<B>(
  { blockBytes = MIB, batchBytes = 256 * KIB }: ExternalSorterOptions<B>,
  rows: RowKind<B>,
): SorterSizes {
  return rows.sizes({
    block: sizeBetween('blockBytes', blockBytes, 4 * KIB, 256 * MIB),
    batch: sizeBetween('batchBytes', batchBytes, KIB, 64 * MIB),
  });
}

function sizeBetween(name: string, value: Size, least: number, most: number): number {
  const bytes = parseSize(value, { name });
  if (bytes < least || bytes > most) {
    throw new ArgumentRangeError(
      'ERR_OOM_GUARD_INVALID_SIZE',
      name,
      value,
      `from ${least} to ${most} bytes`,
    );
  }
  return bytes;
}

/** @throws ArgumentTypeError or ArgumentRangeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkFanIn(fanIn: number = defaultFanIn): number {
  const accepted = `a whole number from 2 to ${mostFanIn}`;
  if (typeof fanIn !== 'number') {
    throw new ArgumentTypeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'fanIn', fanIn, accepted);
  }
  if (!Number.isInteger(fanIn) || fanIn < 2 || fanIn > mostFanIn) {
    throw new ArgumentRangeError('ERR_OOM_GUARD_INVALID_ARGUMENT', 'fanIn', fanIn, accepted);
  }
  return fanIn;
}

/** @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkRows<B>(rows: RowKind<B>): RowKind<B> {
  if (typeof rows?.hold !== 'function') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'rows',
      rows,
      'what fixedRecords, prefixedRecords or values return',
    );
  }
  return rows;
}

/** @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'signal',
      signal,
      'an AbortSignal',
    );
  }
  return signal;
}

/** @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT` */
export function reserveFrom(
  memory: ReservationSource | MemoryPool,
  name: string,
  options: MemoryConsumerOptions,
): MemoryReservation {
  // Not instanceof: a pool may come from another copy of this package.
  if (typeof (memory as ReservationSource | undefined)?.reserve === 'function') {
    return (memory as ReservationSource).reserve(name, options);
  }
  if (typeof (memory as MemoryPool | undefined)?.requestGrow === 'function') {
    return new MemoryConsumer(name, options).register(memory as MemoryPool);
  }
  throw new ArgumentTypeError(
    'ERR_OOM_GUARD_INVALID_ARGUMENT',
    'memory',
    memory,
    'a MemoryPool, or a task of a guard',
  );
}

/** The directory that is to be used, and whether it is the sorter's own to close. */
export function openDirectory(directory: SpillDirectory | SpillDirectoryOptions | undefined): {
  directory: SpillDirectory;
  own: boolean;
} {
  return directory instanceof SpillDirectory
    ? { directory, own: false }
    : { directory: new SpillDirectory(directory), own: true };
}
