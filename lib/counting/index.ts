/** Counting: what the allocators of this process have handed out. */
export { type AuditEntry, audit } from './audit';
export type { MemoryBreakdown, MemoryBreakdownEntry } from './breakdowns';
export {
  type AllocatorCoverage,
  type Coverage,
  type ImageCoverage,
  type NotCovered,
  readCoverage as coverage,
} from './coverage';
export { Ledger, type LedgerCategory, type LedgerData, type LedgerLine, ledger } from './ledger';
export { liveBytes, pageSize, processReadings, rawLiveBytes, type Shard, shards } from './live';
export { type HeapSnapshot, type MemoryData, MemorySnapshot, memory } from './memory';
export type { UncountedLoad } from './modules';
export type { ContainerReading, HeapReading, Readings, RssReading } from './readings';
export { type ReleasedMemory, releaseFreeMemory } from './release';
export { isCounting, type StartOptions, startCounting } from './start';
export { Watchdog, type WatchdogOptions, type WatchdogReading } from './watchdog';
