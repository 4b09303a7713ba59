export { collectGarbage, collectYoungGarbage } from './garbage';
export type { MemoryReclaimerOptions, ReclaimReport } from './memory-reclaimer';
export { MemoryReclaimer } from './memory-reclaimer';
