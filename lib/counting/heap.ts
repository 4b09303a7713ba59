/** This isolate's V8 heap. */
import v8 from 'node:v8';
import type { HeapReading } from './readings';

/** Bytes in use in the calling isolate's heap, garbage included. A fraction of a microsecond. */
export function usedHeap(): number {
  return v8.getHeapStatistics().used_heap_size;
}

export function readHeap(): HeapReading {
  const statistics = v8.getHeapStatistics();
  return { used: statistics.used_heap_size, limit: statistics.heap_size_limit };
}
