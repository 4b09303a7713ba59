/** One snapshot of this process's memory. */
import { inspect } from 'node:util';
import v8 from 'node:v8';
import { type MemoryBreakdown, readBreakdowns } from './breakdowns';
import { type AllocatorCoverage, type NotCovered, readCoverage } from './coverage';
import { countedIsolates, pageSize, processReadings } from './live';
import { renderMemory } from './memory-table';
import type { ContainerReading, RssReading } from './readings';
import { isCounting } from './start';
import { readPeak } from './watchdog';

/** The calling isolate's V8 heap, bytes. */
export interface HeapSnapshot {
  used: number;
  total: number;
  limit: number;
  /** Memory outside the heap that V8 was told of. Unreliable: modules report what they like. */
  external: number;
  arrayBuffers: number;
}

/** What {@link memory} tells, as plain data. Sizes in bytes. */
export interface MemoryData {
  /** False before counting has started in this isolate. */
  counting: boolean;
  live: number;
  /** Live plus the used heap of the isolates that have started counting. */
  usage: number;
  /** The highest seen at a tick of the watchdog; `undefined` while no {@link Watchdog} runs. */
  peak: { live: number; usage: number } | undefined;
  isolates: number;
  allocators: AllocatorCoverage[];
  /** What modules say of what they hold: a governed DuckDB. Part of live, not beside it. */
  breakdowns: MemoryBreakdown[];
  heap: HeapSnapshot;
  rss: RssReading;
  container: ContainerReading | undefined;
  pageSize: number | undefined;
  notCovered: NotCovered[];
}

/** Prints as a table in a REPL and with `console.log`; `toJSON()` is for machines. */
export class MemorySnapshot implements MemoryData {
  readonly counting: boolean;
  readonly live: number;
  readonly usage: number;
  readonly peak: { live: number; usage: number } | undefined;
  readonly isolates: number;
  readonly allocators: AllocatorCoverage[];
  readonly breakdowns: MemoryBreakdown[];
  readonly heap: HeapSnapshot;
  readonly rss: RssReading;
  readonly container: ContainerReading | undefined;
  readonly pageSize: number | undefined;
  readonly notCovered: NotCovered[];

  constructor(data: MemoryData) {
    this.counting = data.counting;
    this.live = data.live;
    this.usage = data.usage;
    this.peak = data.peak;
    this.isolates = data.isolates;
    this.allocators = data.allocators;
    this.breakdowns = data.breakdowns;
    this.heap = data.heap;
    this.rss = data.rss;
    this.container = data.container;
    this.pageSize = data.pageSize;
    this.notCovered = data.notCovered;
  }

  toJSON(): MemoryData {
    return { ...this };
  }

  /** The table, at most 80 columns wide. */
  toString(): string {
    return renderMemory(this);
  }

  [inspect.custom](): string {
    return renderMemory(this);
  }
}

/**
 * Takes a snapshot: what each allocator has handed out, V8's heap, resident memory, the container's
 * limit, and what is not counted. Tens of microseconds. Works without counting too, with less in it.
 */
export function memory(): MemorySnapshot {
  const coverage = readCoverage();
  const statistics = v8.getHeapStatistics();
  const usage = process.memoryUsage();
  return new MemorySnapshot({
    counting: isCounting() && coverage.available,
    live: processReadings.live(),
    usage: processReadings.usage(),
    peak: readPeak(),
    isolates: countedIsolates(),
    allocators: coverage.allocators,
    breakdowns: readBreakdowns(),
    heap: {
      used: statistics.used_heap_size,
      total: statistics.total_heap_size,
      limit: statistics.heap_size_limit,
      external: usage.external,
      arrayBuffers: usage.arrayBuffers,
    },
    rss: processReadings.rss(),
    container: processReadings.container(),
    pageSize: pageSize(),
    notCovered: [...coverage.notCovered, ...ALWAYS_OUTSIDE],
  });
}

const ALWAYS_OUTSIDE: readonly NotCovered[] = [
  { what: 'WebAssembly memory', reason: 'mapped by V8, not allocated' },
  { what: 'other isolates', reason: 'a Worker is seen once it calls startCounting()' },
];
