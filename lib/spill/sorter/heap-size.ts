/** Bytes of V8's per object, per property or element, and per string or boxed number. */
const objectBytes = 24;
const slotBytes = 8;
const boxBytes = 16;
const collectionEntryBytes = 24;

/** Values within a value that are looked at; the rest of a larger one is taken to be like those. */
const visitLimit = 1_000;

/**
 * Roughly what a value takes in memory, bytes: its objects, strings and Buffers, each once. V8 does
 * not tell; strings are taken to have one byte a character.
 */
export function estimateBytes(value: unknown): number {
  const seen = new Set<object>();
  const open: unknown[] = [value];
  let bytes = slotBytes;
  let visited = 0;
  for (let next = open.pop(); visited < visitLimit; next = open.pop()) {
    visited += 1;
    bytes += sizeOf(next, seen, open);
    if (open.length === 0) return bytes;
  }
  return Math.ceil(bytes * (1 + open.length / visited));
}

function sizeOf(value: unknown, seen: Set<object>, open: unknown[]): number {
  switch (typeof value) {
    case 'string':
      return boxBytes + value.length;
    case 'number':
      return Number.isInteger(value) && Math.abs(value) < 2 ** 30 ? 0 : boxBytes;
    case 'bigint':
      return boxBytes + slotBytes;
    case 'object':
      break;
    default:
      return 0;
  }
  if (value === null || seen.has(value)) return 0;
  seen.add(value);
  if (ArrayBuffer.isView(value)) return 4 * objectBytes + value.byteLength;
  if (value instanceof ArrayBuffer) return 2 * objectBytes + value.byteLength;
  if (value instanceof Date) return 2 * objectBytes;
  if (value instanceof Map) {
    for (const [key, item] of value) open.push(key, item);
    return 3 * objectBytes + value.size * collectionEntryBytes;
  }
  if (value instanceof Set) {
    for (const item of value) open.push(item);
    return 3 * objectBytes + value.size * collectionEntryBytes;
  }
  const items: unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const item of items) open.push(item);
  return objectBytes + items.length * slotBytes;
}
