/** The public exports of `oom-guard`. */
export * from './breaker';
export * from './counting';
export {
  findResourcesExhausted,
  isResourcesExhausted,
  ResourcesExhaustedError,
} from './errors';
export { formatSize } from './format';
export * from './guard';
export { parseSize } from './sizes';
