/** Where the loaded images (executable and libraries) lie, zero-initialised data included. */
import type { OwnMemory } from './own-memory';
import type { Range } from './ranges';
import type { Mapping } from './smaps';

const HEADER_BYTES = 64;
const MAX_PROGRAM_HEADERS = 128;
const LOADABLE = 1;

/**
 * The ranges of all images, sorted. Their zero-initialised data is anonymous memory that no name
 * tells from other anonymous memory, and the kernel may have joined it with its neighbour's; the
 * image's own program headers say where it ends.
 */
export function findImages(
  mappings: readonly Mapping[],
  pageSize: number,
  memory: OwnMemory,
): Range[] {
  // A file that is only read through a mapping has no code mapped.
  const executable = new Set(
    mappings.filter(({ permissions }) => permissions[2] === 'x').map(({ path }) => path),
  );
  return mappings
    .filter(({ path, offset }) => path.startsWith('/') && offset === 0 && executable.has(path))
    .flatMap(({ start }) => {
      const end = imageEnd(start, memory);
      return end === undefined ? [] : [{ start, end: Math.ceil(end / pageSize) * pageSize }];
    });
}

/** The address after the last byte of the image whose file begins at `start`; 64-bit ELF only. */
function imageEnd(start: number, memory: OwnMemory): number | undefined {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  if (!memory.read(start, header) || header.readUInt32BE(0) !== 0x7f454c46) return undefined;
  const is64LittleEndian = header[4] === 2 && header[5] === 1;
  const size = header.readUInt16LE(54);
  const count = header.readUInt16LE(56);
  if (!is64LittleEndian || size < 56 || count > MAX_PROGRAM_HEADERS) return undefined;
  const table = Buffer.allocUnsafe(size * count);
  if (!memory.read(start + Number(header.readBigUInt64LE(32)), table)) return undefined;
  let base: number | undefined;
  let last = 0;
  for (let at = 0; at < table.length; at += size) {
    if (table.readUInt32LE(at) !== LOADABLE) continue;
    const offset = Number(table.readBigUInt64LE(at + 8));
    const address = Number(table.readBigUInt64LE(at + 16));
    base ??= start - (address - offset);
    last = Math.max(last, address + Number(table.readBigUInt64LE(at + 40)));
  }
  return base === undefined ? undefined : base + last;
}
