/**
 * What glibc's malloc keeps outside `[heap]`, told by the headers it writes into that memory itself
 * (malloc/malloc.c and malloc/arena.c; unchanged from 2.3 to 2.41).
 */
import type { OwnMemory } from './own-memory';
import type { Range } from './ranges';

/** Each further arena's heaps are aligned to this, 64-bit. */
const HEAP_ALIGNMENT = 64 * 1024 * 1024;
/** An arena's first heap holds the arena right behind the heap's own header. */
const MAX_HEAP_HEADER = 256n;

const CHUNK_HEADER = 16;
const CHUNK_FLAGS = 7n;
const IS_MMAPPED = 2n;
/** How many pages without a header are looked at before the rest of a mapping is given up. */
const MAX_MISSES = 512;
/** `memalign` with a larger alignment is not looked for, bytes. */
const MAX_ALIGNMENT = 2 * 1024 * 1024;

/**
 * Blocks that malloc mapped one by one (128 KiB and more), with their headers, in an anonymous
 * mapping; neighbours in one range. The kernel joins neighbours into one mapping, so all of it is
 * walked: one small read a block, about 2 µs.
 */
export function findMappedChunks(within: Range, pageSize: number, memory: OwnMemory): Range[] {
  const found: Range[] = [];
  const page = Buffer.allocUnsafe(pageSize);
  let misses = 0;
  let missedBefore = false;
  for (let at = within.start; at < within.end && misses < MAX_MISSES; ) {
    const length = chunkLength(at, within.end, page, memory, !missedBefore);
    if (length === undefined) {
      at += pageSize;
      misses++;
      missedBefore = true;
    } else {
      const last = found.at(-1);
      if (last?.end === at) last.end += length;
      else found.push({ start: at, end: at + length });
      at += length;
      missedBefore = false;
    }
  }
  return found;
}

function chunkLength(
  start: number,
  limit: number,
  page: Buffer,
  memory: OwnMemory,
  thorough: boolean,
): number | undefined {
  const pageSize = page.length;
  if (!memory.read(start, page)) return undefined;
  const accept = (header: Buffer, at: number, lead: number) => {
    // Nearly all are told by one byte.
    if (((header[at + 8] as number) & 7) !== 2) return undefined;
    const flagged = header.readBigUInt64LE(at + 8);
    if ((flagged & CHUNK_FLAGS) !== IS_MMAPPED || header.readBigUInt64LE(at) !== BigInt(lead)) {
      return undefined;
    }
    const length = lead + Number(flagged & ~CHUNK_FLAGS);
    const fits = length > lead && length % pageSize === 0 && length <= limit - start;
    return fits ? length : undefined;
  };
  // Plain blocks begin with the header; aligned ones have it further in, and its distance in it.
  for (let lead = 0; lead < pageSize; lead += CHUNK_HEADER) {
    const length = accept(page, lead, lead);
    if (length !== undefined) return length;
  }
  if (!thorough) return undefined;
  const header = page.subarray(0, CHUNK_HEADER);
  const end = Math.min(limit - start, MAX_ALIGNMENT);
  for (let lead = 2 * pageSize - CHUNK_HEADER; lead < end; lead += pageSize) {
    if (!memory.read(start + lead, header)) return undefined;
    const length = accept(header, 0, lead);
    if (length !== undefined) return length;
  }
  return undefined;
}

/** The heaps of further arenas (one arena a thread at first) in an anonymous mapping. */
export function findArenaHeaps(within: Range, pageSize: number, memory: OwnMemory): Range[] {
  const found: Range[] = [];
  const first = Math.ceil(within.start / HEAP_ALIGNMENT) * HEAP_ALIGNMENT;
  for (let start = first; start < within.end; start += HEAP_ALIGNMENT) {
    const length = heapLength(start, pageSize, memory);
    if (length !== undefined) found.push({ start, end: Math.min(start + length, within.end) });
  }
  return found;
}

/** The header is: arena, previous heap, bytes in use, bytes made accessible. */
function heapLength(start: number, pageSize: number, memory: OwnMemory): number | undefined {
  const header = Buffer.allocUnsafe(32);
  if (!memory.read(start, header)) return undefined;
  const [arena, previous, size, accessible] = [0, 8, 16, 24].map((at) =>
    header.readBigUInt64LE(at),
  ) as [bigint, bigint, bigint, bigint];
  const alignment = BigInt(HEAP_ALIGNMENT);
  const inFirst = arena % alignment;
  const holds =
    inFirst >= 32n &&
    inFirst <= MAX_HEAP_HEADER &&
    previous % alignment === 0n &&
    (previous === 0n) === (arena - inFirst === BigInt(start)) &&
    size > 0n &&
    size <= accessible &&
    accessible <= alignment &&
    accessible % BigInt(pageSize) === 0n;
  return holds ? Number(accessible) : undefined;
}
