/** `/proc/self/smaps`: every mapping of this process and how much of it is resident. */
import { closeSync, openSync, readSync } from 'node:fs';

/** One mapping. Sizes in bytes, addresses as numbers (user addresses are below 2^53). */
export interface Mapping {
  start: number;
  /** The first address after it. */
  end: number;
  /** As the kernel writes them: `rw-p`. */
  permissions: string;
  /** Where in the file it begins, bytes. */
  offset: number;
  /** A path, a name in brackets, or empty for anonymous memory. */
  path: string;
  /** Resident bytes. */
  rss: number;
  /** Of these, bytes of no file: anonymous memory, and pages of a file that were written to. */
  anonymous: number;
  /** The kernel's flags (`VmFlags`), two letters each; empty before Linux 3.8. */
  flags: readonly string[];
}

const HEADER = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+ *(.*)$/;
const UPPERCASE_A = 65;
const UPPERCASE_Z = 90;
const KIB = 1024;

/** Reads what {@link readSmaps} returns. Lines that are not understood are passed over. */
export function parseSmaps(text: string): Mapping[] {
  const mappings: Mapping[] = [];
  let current: Mapping | undefined;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline;
    const first = text.charCodeAt(at);
    if (first >= UPPERCASE_A && first <= UPPERCASE_Z) {
      // Of some 25 lines a mapping three are wanted; comparing in place spares the others' copies.
      if (current === undefined) {
      } else if (text.startsWith('Rss:', at)) current.rss = readKib(text, at + 4, end);
      else if (text.startsWith('Anonymous:', at)) current.anonymous = readKib(text, at + 10, end);
      else if (text.startsWith('VmFlags:', at))
        current.flags = text
          .slice(at + 8, end)
          .trim()
          .split(' ');
    } else {
      const mapping = parseHeader(text.slice(at, end));
      if (mapping !== undefined) {
        mappings.push(mapping);
        current = mapping;
      }
    }
    at = end + 1;
  }
  return mappings;
}

function parseHeader(line: string): Mapping | undefined {
  const match = HEADER.exec(line);
  if (match === null) return undefined;
  const [, start = '', end = '', permissions = '', offset = '', path = ''] = match;
  return {
    start: Number.parseInt(start, 16),
    end: Number.parseInt(end, 16),
    permissions,
    offset: Number.parseInt(offset, 16),
    path,
    rss: 0,
    anonymous: 0,
    flags: [],
  };
}

function readKib(text: string, from: number, to: number): number {
  return Number.parseInt(text.slice(from, to), 10) * KIB;
}

/**
 * The file's text. Throws where there is none. The kernel walks the page tables for it: about 10 ms
 * for each GB that is resident, while the process's other threads cannot map memory.
 */
export function readSmaps(): string {
  const file = openSync('/proc/self/smaps', 'r');
  try {
    // Large reads: what is mapped between two of them may be missed.
    let buffer = Buffer.allocUnsafeSlow(256 * KIB);
    let length = 0;
    for (;;) {
      const count = readSync(file, buffer, length, buffer.length - length, null);
      if (count === 0) return buffer.toString('latin1', 0, length);
      length += count;
      if (length === buffer.length) {
        const larger = Buffer.allocUnsafeSlow(buffer.length * 2);
        buffer.copy(larger);
        buffer = larger;
      }
    }
  } finally {
    closeSync(file);
  }
}
