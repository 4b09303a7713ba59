/** Gives freed memory that the allocators still hold back to the kernel. */
import { readRss } from './rss';
import { countingBinding } from './start';

/** What {@link releaseFreeMemory} did. Sizes in bytes. */
export interface ReleasedMemory {
  /** Anonymous resident memory of this process before and after. */
  anonBefore: number;
  anonAfter: number;
  /** What came back; 0 when more was allocated meanwhile. */
  released: number;
}

/**
 * Trims glibc and purges the dirty pages of every jemalloc, off the calling thread. Milliseconds;
 * threads that allocate meanwhile may wait. Does nothing while nothing is counted.
 */
export async function releaseFreeMemory(): Promise<ReleasedMemory> {
  const { anon: anonBefore } = readRss();
  await countingBinding()?.releaseFreeMemory();
  const { anon: anonAfter } = readRss();
  return { anonBefore, anonAfter, released: Math.max(0, anonBefore - anonAfter) };
}
