/** Spilling to disk (`oom-guard/spill`): files of batches, and a sort for more rows than fit. */
export type { SpillCodec } from './codec';
export type { SpillErrorCode } from './errors';
export {
  SpillCodecError,
  SpillCorruptionError,
  SpillDirectoryError,
  SpillError,
  SpillSpaceError,
} from './errors';
export { fixedRecordCodec, prefixedRecordCodec } from './record-codecs';
export type { RecordPrefix } from './record-layout';
export { ExternalSorter, type SortStats } from './sorter/external-sorter';
export type { RecordComparator, RecordKey, RecordOrderOptions } from './sorter/record-order';
export { fixedRecords, prefixedRecords } from './sorter/record-rows';
export type { RowKind } from './sorter/row-kind';
export type { ExternalSorterOptions, ReservationSource } from './sorter/sorter-options';
export { type ValueOptions, values } from './sorter/value-rows';
export { SpillDirectory, type SpillDirectoryOptions } from './spill-directory';
export type { SpillFile } from './spill-file';
export { structuredCodec } from './structured-codec';
export { sweepSpillDirectories } from './sweep';
