/** Looks into this process's own memory through the kernel: no address given here can crash it. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

/** What the ledger must know beside the list of mappings. */
export interface OwnMemory {
  /** Whether this process may look at all; {@link read} is false for every address otherwise. */
  readonly readable: boolean;
  /** Fills `into` from an address; false where nothing is mapped, or nobody may look. */
  read(address: number, into: Buffer): boolean;
  /** Resident bytes of a range of whole pages; `undefined` where the kernel does not tell. */
  resident(start: number, end: number): number | undefined;
  /** Stack pointers of the threads that sleep in a system call. */
  stackPointers(threads: readonly string[]): number[];
  close(): void;
}

const ENTRY_BYTES = 8;
/** Bit 63 of a little-endian page map entry: the page is present. */
const PRESENT_BYTE = 7;
const PRESENT = 0x80;
const PAGES_PER_READ = 8192;

/** `pageSize` in bytes. */
export function openOwnMemory(pageSize: number): OwnMemory {
  const memory = tryOpen('/proc/self/mem');
  const pageMap = tryOpen('/proc/self/pagemap');
  return {
    readable: memory !== undefined,
    read(address, into) {
      if (memory === undefined) return false;
      try {
        return readSync(memory, into, 0, into.length, address) === into.length;
      } catch {
        return false;
      }
    },
    resident(start, end) {
      if (pageMap === undefined) return undefined;
      const pages = (end - start) / pageSize;
      const buffer = Buffer.allocUnsafe(Math.min(pages, PAGES_PER_READ) * ENTRY_BYTES);
      let present = 0;
      for (let page = 0; page < pages; page += PAGES_PER_READ) {
        const wanted = Math.min(pages - page, PAGES_PER_READ) * ENTRY_BYTES;
        const position = (start / pageSize + page) * ENTRY_BYTES;
        try {
          if (readSync(pageMap, buffer, 0, wanted, position) !== wanted) return undefined;
        } catch {
          return undefined;
        }
        for (let at = PRESENT_BYTE; at < wanted; at += ENTRY_BYTES) {
          if (((buffer[at] as number) & PRESENT) !== 0) present++;
        }
      }
      return present * pageSize;
    },
    stackPointers: (threads) => threads.flatMap(readStackPointer),
    close() {
      if (memory !== undefined) closeSync(memory);
      if (pageMap !== undefined) closeSync(pageMap);
    },
  };
}

/** `<number> <six arguments> <stack pointer> <program counter>`, or `-1 <sp> <pc>`, or `running`. */
function readStackPointer(thread: string): number[] {
  try {
    const fields = readFileSync(`/proc/self/task/${thread}/syscall`, 'latin1').trim().split(' ');
    const pointer = Number(fields.at(-2));
    return Number.isSafeInteger(pointer) && pointer > 0 ? [pointer] : [];
  } catch {
    return [];
  }
}

function tryOpen(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch {
    return undefined;
  }
}
