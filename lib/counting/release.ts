/** Gives freed memory that the allocators still hold back to the kernel. */
import { countingBinding } from './start';

/**
 * Trims glibc and purges the dirty pages of every jemalloc, off the calling thread. Milliseconds;
 * threads that allocate meanwhile may wait. Does nothing while nothing is counted.
 */
export async function releaseFreeMemory(): Promise<void> {
  await countingBinding()?.releaseFreeMemory();
}
