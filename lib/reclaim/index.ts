export { collectGarbage, collectYoungGarbage } from './garbage';
export type { CacheReclaim, MemoryReclaimerOptions, ReclaimReport } from './memory-reclaimer';
export { MemoryReclaimer } from './memory-reclaimer';
