import { deserialize, serialize } from 'node:v8';
import type { SpillCodec } from './codec';
import { freeBytes } from './free-bytes';

/**
 * For everything that can be cloned between Workers: plain objects, arrays, Maps, Dates, BigInts,
 * Buffers, with cycles. Functions and class instances cannot; encoding one is a codec error.
 */
export function structuredCodec<Batch>(): SpillCodec<Batch> {
  return { name: 'structured', encode: serialize, decode: deserialize, release: freeBytes };
}
