/** Where resident memory went, line by line. */
import { inspect } from 'node:util';
import v8 from 'node:v8';
import {
  type JemallocStatistics,
  loadNative,
  type NativeAllocator,
  type NativeBinding,
} from '../native';
import {
  classify,
  type LedgerLine,
  listThreads,
  makeLines,
  openOwnMemory,
  parseSmaps,
  readSmaps,
  renderLedger,
} from './ledger/index';

export type { LedgerCategory, LedgerLine } from './ledger/index';

/** What {@link ledger} tells, as plain data. Sizes in bytes. */
export interface LedgerData {
  /**
   * Resident memory, the sum of all lines to the byte. Added up from the page tables, so it may
   * differ by some hundred KiB from the kernel's counter (`VmRSS`), which is approximate.
   */
  rss: number;
  lines: LedgerLine[];
  /** The sum of the lines that say `unexplained`. */
  unexplained: number;
  /** Live, but never written to: the kernel has given no page for it, so it is in no line. */
  untouched: number;
  /** Why there is only one line; absent when there are all. */
  reason?: string;
}

/** Prints as a table in a REPL and with `console.log`; `toJSON()` is for machines. */
export class Ledger implements LedgerData {
  readonly rss: number;
  readonly lines: LedgerLine[];
  readonly unexplained: number;
  readonly untouched: number;
  readonly reason?: string;

  constructor(data: Omit<LedgerData, 'unexplained'>) {
    this.rss = data.rss;
    this.lines = data.lines;
    this.untouched = data.untouched;
    this.unexplained = data.lines
      .filter(({ category }) => category === 'unexplained')
      .reduce((sum, { bytes }) => sum + bytes, 0);
    if (data.reason !== undefined) this.reason = data.reason;
  }

  toJSON(): LedgerData {
    return { ...this };
  }

  /** The table, at most 80 columns wide. */
  toString(): string {
    return renderLedger(this);
  }

  [inspect.custom](): string {
    return renderLedger(this);
  }
}

const DEFAULT_PAGE_SIZE = 4096;
/**
 * A garbage collection may unmap a large block after the mappings were listed and before its header
 * was looked at. When that left more than this share of RSS unexplained, all is read again.
 */
const VANISHED_SHARE = 1 / 1000;
const ATTEMPTS = 3;
/** Notes of lines that counting would split, in the width of the table's column. */
const NOT_STARTED = 'startCounting() splits it';
const NO_ADDON = 'without the addon';

/**
 * Attributes every resident byte of this process to one line: V8's heap per space, what is live in
 * each allocator and what it holds beyond (slack), thread stacks, modules' data, mapped files, shared
 * memory, and what is left as `unexplained`. Call {@link startCounting} first: without counting, live
 * and slack are one line. Off Linux there is one line only. Never throws.
 *
 * For diagnosis, not for a timer: the kernel walks all page tables (`/proc/self/smaps`), while no
 * thread of the process can map memory. Measured on 2 cores: 5 to 10 ms for a small process, about
 * 15 ms at 1 GB of native memory, 35 to 60 ms at 1 GB of JavaScript heap (a mapping for every
 * 256 KiB), and 20 to 70 ms more for the first call. It allocates several times the file's length
 * (90 KB to 2.5 MB).
 */
export function ledger(): Ledger {
  try {
    for (let attempt = 1; ; attempt++) {
      const { taken, vanished } = readLedger();
      if (vanished <= taken.rss * VANISHED_SHARE || attempt === ATTEMPTS) return taken;
    }
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    const reason =
      process.platform === 'linux'
        ? `/proc/self/smaps could not be read: ${cause}`
        : `resident memory is told line by line on Linux only, not on ${process.platform}`;
    const rss = process.memoryUsage.rss();
    const line = { category: 'unexplained', name: 'unexplained', bytes: rss, note: '' } as const;
    return new Ledger({ rss, lines: [line], untouched: 0, reason });
  }
}

function readLedger(): { taken: Ledger; vanished: number } {
  const native = loadNative();
  // Counting is process-wide: another isolate may have started it.
  const binding = native.available ? native.binding : undefined;
  binding?.catchUp();
  // All readings close to each other, the parsing after them.
  const allocators = (binding?.allocators() ?? []).map((allocator) => ({
    ...allocator,
    statistics: readStatistics(binding, allocator),
  }));
  const spaces = v8.getHeapSpaceStatistics();
  const text = readSmaps();
  const threads = listThreads();
  const mappings = parseSmaps(text);
  const provider = allocators.find(({ name }) => name.startsWith('malloc ('));
  const glibc =
    provider === undefined
      ? mappings.some((mapping) => /\/libc(\.so\.6|-2\.\d+\.so)$/.test(mapping.path))
      : provider.name === 'malloc (glibc)';
  const pageSize = binding?.pageSize ?? DEFAULT_PAGE_SIZE;
  const memory = openOwnMemory(pageSize);
  try {
    const own = binding?.ownMemory?.() ?? [];
    const classified = classify(mappings, { pageSize, memory, threads, glibc, own });
    const { lines, untouched } = makeLines({
      classified,
      allocators,
      spaces: spaces.map((space) => ({
        name: space.space_name,
        resident: space.physical_space_size,
      })),
      threads: threads.length,
      glibc,
      uncounted: allocators.length > 0 ? '' : native.available ? NOT_STARTED : NO_ADDON,
    });
    const rss = mappings.reduce((sum, mapping) => sum + mapping.rss, 0);
    return { taken: new Ledger({ rss, lines, untouched }), vanished: classified.vanished };
  } finally {
    memory.close();
  }
}

/** Only jemalloc tells what it has mapped. */
function readStatistics(
  binding: NativeBinding | undefined,
  { name, owner }: NativeAllocator,
): JemallocStatistics | undefined {
  const prefix = name === 'malloc (jemalloc)' ? '' : /^jemalloc \((.*)\)$/.exec(name)?.[1];
  return prefix === undefined ? undefined : binding?.jemallocStatistics(owner, prefix);
}
