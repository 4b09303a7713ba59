/**
 * Abseil's low-level arenas, which it maps itself: since Node 24 the mutexes in V8 keep their lock
 * order in one, about 1 MiB.
 */
import type { OwnMemory } from './own-memory';
import type { Range } from './ranges';

/** A block's header: its size, a magic number mixed with its address, its arena. */
const HEADER_BYTES = 16;
const ALLOCATED = 0x4c833e95n;
const ADDRESS_BITS = 64;
const FREE = BigInt.asUintN(ADDRESS_BITS, ~ALLOCATED);

/** The blocks from the start of a range on; `undefined` when there are none. */
export function findAbseilArena(within: Range, memory: OwnMemory): Range | undefined {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  let at = within.start;
  while (at + HEADER_BYTES <= within.end && memory.read(at, header)) {
    const size = Number(header.readBigUInt64LE(0));
    const magic = header.readBigUInt64LE(8) ^ BigInt(at);
    if ((magic !== ALLOCATED && magic !== FREE) || size < HEADER_BYTES) break;
    if (at + size > within.end) break;
    at += size;
  }
  return at === within.start ? undefined : { start: within.start, end: at };
}
