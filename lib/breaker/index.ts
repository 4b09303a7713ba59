export type { BatchBreaker, GuardBatchesOptions, Watching } from './guard-batches';
export { guardBatches } from './guard-batches';
export {
  type GuardTransformOptions,
  guardTransform,
  guardTransformStream,
} from './guard-streams';
export type { MemoryBreakerOptions } from './memory-breaker';
export { MemoryBreaker } from './memory-breaker';
