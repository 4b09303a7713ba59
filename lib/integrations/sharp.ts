/** `oom-guard/sharp`: what an image will take, and what sharp's cache can give back. */
import { ArgumentTypeError } from '../errors';

export { estimateImage, type ImageMetadata, type ImageOperations } from './sharp-estimate';

/** sharp, as far as it is used here. */
export interface SharpLike {
  cache(options?: boolean | object): {
    memory: { max: number };
    files: { max: number };
    items: { max: number };
  };
}

/**
 * Empties sharp's cache and gives it its size back: for `guard.onReclaim`.
 *
 * @throws ArgumentTypeError `ERR_OOM_GUARD_INVALID_ARGUMENT`
 */
export function sharpCache(sharp: SharpLike): () => void {
  if (typeof sharp?.cache !== 'function') {
    throw new ArgumentTypeError(
      'ERR_OOM_GUARD_INVALID_ARGUMENT',
      'sharp',
      sharp,
      'the sharp module',
    );
  }
  return () => {
    const { memory, files, items } = sharp.cache();
    sharp.cache(false);
    sharp.cache({ memory: memory.max, files: files.max, items: items.max });
  };
}
