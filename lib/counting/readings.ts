/**
 * What pools, breakers and guards read about this process. They are handed an object of this shape
 * instead of fetching the numbers, so that every policy can be tested with invented ones.
 */

/** This process's resident memory, bytes. */
export interface RssReading {
  total: number;
  /** Anonymous pages: heaps, stacks. What a container's limit is really spent on. */
  anon: number;
  /** Mapped files (libraries, data). The kernel can drop them. */
  file: number;
  /** Shared memory (tmpfs, memfd). */
  shared: number;
}

/** This isolate's V8 heap, bytes. */
export interface HeapReading {
  used: number;
  /** `heap_size_limit`: passing it aborts the process (exit 134). */
  limit: number;
}

/** The memory cgroup this process is charged to, bytes. */
export interface ContainerReading {
  /** The lowest limit on the way to the root, or `undefined` when there is none. */
  limit: number | undefined;
  /** Anonymous bytes charged by all processes in it. */
  anon: number;
  /** All bytes charged, page cache included. Never gated on. */
  current: number;
  version: 1 | 2;
  /** Where it was read, for messages. */
  path: string;
}

export interface Readings {
  /** Bytes handed out and not given back by every counted allocator. */
  live(): number;
  /** Live bytes plus the used V8 heap of every isolate that loaded the package. */
  usage(): number;
  /** The calling isolate's heap. */
  heap(): HeapReading;
  /** `undefined` outside a memory cgroup, or where it cannot be read. */
  container(): ContainerReading | undefined;
  rss(): RssReading;
}
