/** Whatever is sorted and whoever refuses: sorted, stable, complete, and nothing is left. */
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isResourcesExhausted } from '../../lib/pool';
import {
  ExternalSorter,
  type ExternalSorterOptions,
  fixedRecords,
  prefixedRecords,
  values,
} from '../../lib/spill';
import { temporaryDirectory } from '../support/package';
import { entries, RefusingPool } from '../support/spilling';

const runs = Number(process.env.OOM_GUARD_RUNS ?? 60);
const parent = path.join(temporaryDirectory(), 'spill');

/** Sorts by some way of holding rows; gives back the places that they were pushed at, in order. */
type Sort = (keys: Uint8Array[], batches: number[], options: Options) => Promise<number[]>;
type Options = Omit<ExternalSorterOptions<never>, 'rows'> & { descending: boolean };

const placeBytes = 4;

function place(index: number): Buffer {
  const bytes = Buffer.alloc(placeBytes);
  bytes.writeUInt32BE(index);
  return bytes;
}

/** Batches of the given sizes, over and over. */
function* cut<T>(rows: T[], sizes: number[]): Generator<T[]> {
  for (let at = 0, turn = 0; at < rows.length; turn++) {
    const size = sizes[turn % sizes.length] as number;
    yield rows.slice(at, at + size);
    at += size;
  }
}

const keyBytes = 9;

const sortFixed =
  (compare: boolean): Sort =>
  async (keys, batches, { descending, ...options }) => {
    const recordBytes = keyBytes + placeBytes;
    const sorter = new ExternalSorter({
      ...options,
      rows: compare
        ? fixedRecords({
            recordBytes,
            compare: (a, aStart, _, b, bStart) =>
              (descending ? -1 : 1) *
              a.compare(b, bStart, bStart + keyBytes, aStart, aStart + keyBytes),
          })
        : fixedRecords({ recordBytes, key: { offset: 0, length: keyBytes, descending } }),
    });
    const rows = keys.map((key, index) => {
      const record = Buffer.alloc(recordBytes);
      record.set(key);
      record.set(place(index), keyBytes);
      return record;
    });
    const places: number[] = [];
    const source = [...cut(rows, batches)].map((batch) => Buffer.concat(batch));
    for await (const batch of sorter.sort(source)) {
      for (let at = keyBytes; at < batch.length; at += recordBytes) {
        places.push(batch.readUInt32BE(at));
      }
    }
    return places;
  };

const sortPrefixed: Sort = async (keys, batches, { descending, ...options }) => {
  const sorter = new ExternalSorter({
    ...options,
    rows: prefixedRecords({ prefix: 'uint16be', key: { offset: placeBytes, descending } }),
  });
  const rows = keys.map((key, index) => {
    const head = Buffer.alloc(2);
    head.writeUInt16BE(placeBytes + key.length);
    return Buffer.concat([head, place(index), key]);
  });
  const places: number[] = [];
  const source = [...cut(rows, batches)].map((batch) => Buffer.concat(batch));
  for await (const batch of sorter.sort(source)) {
    const bytes = batch;
    for (let at = 0; at < bytes.length; at += 2 + bytes.readUInt16BE(at)) {
      places.push(bytes.readUInt32BE(at + 2));
    }
  }
  return places;
};

const sortValues: Sort = async (keys, batches, { descending, ...options }) => {
  const sorter = new ExternalSorter({
    ...options,
    rows: values<{ key: Uint8Array; index: number }>({
      compare: (a, b) => (descending ? -1 : 1) * Buffer.compare(a.key, b.key),
    }),
  });
  const rows = keys.map((key, index) => ({ key, index }));
  const places: number[] = [];
  for await (const batch of sorter.sort(cut(rows, batches))) {
    places.push(...batch.map(({ index }) => index));
  }
  return places;
};

/** Few bytes of few values: keys that are equal, keys that begin alike, keys that are prefixes. */
const anyKey = fc
  .array(fc.oneof(fc.constantFrom(0, 1, 255), fc.integer({ min: 0, max: 255 })), {
    maxLength: keyBytes,
  })
  .map((bytes) => Uint8Array.from(bytes));

const inputs = fc.record({
  keys: fc
    .tuple(fc.array(anyKey, { minLength: 1, maxLength: 60 }), fc.integer({ min: 0, max: 3000 }))
    .map(([keys, length]) =>
      Array.from({ length }, (_, i) => keys[(i * 31 + (i >> 3)) % keys.length] as Uint8Array),
    ),
  batches: fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 5 }),
  fanIn: fc.integer({ min: 2, max: 5 }),
  descending: fc.boolean(),
  reuseBatches: fc.boolean(),
  refusals: fc.infiniteStream(fc.boolean()),
  share: fc.constantFrom(0, 2, 5, 50),
});

/** The keys padded as fixed records are, for those; else as they are. */
function expected(keys: Uint8Array[], fixed: boolean, descending: boolean): number[] {
  const padded = fixed
    ? keys.map((key) => Buffer.concat([key, Buffer.alloc(keyBytes)]).subarray(0, keyBytes))
    : keys;
  return keys
    .map((_, index) => index)
    .sort(
      (a, b) =>
        (descending ? -1 : 1) * Buffer.compare(padded[a] as Uint8Array, padded[b] as Uint8Array) ||
        a - b,
    );
}

const sizes = { directory: { parent }, blockBytes: 4096, batchBytes: 1024 };

describe.each<[string, Sort, boolean]>([
  ['fixed records by key', sortFixed(false), true],
  ['fixed records by comparator', sortFixed(true), true],
  ['prefixed records', sortPrefixed, false],
  ['values', sortValues, false],
])('%s', (_, sort, fixed) => {
  test('whoever is refused: sorted, stable, complete, and nothing is left', async () => {
    const property = fc.asyncProperty(inputs, async (input) => {
      const { keys, batches, share, refusals, ...rest } = input;
      let asked = 0;
      const memory = new RefusingPool(() => {
        asked += 1;
        return share > 0 && asked % share === 0 && (refusals.next().value as boolean);
      });
      try {
        const places = await sort(keys, batches, { ...rest, ...sizes, memory });
        expect(places).toEqual(expected(keys, fixed, rest.descending));
      } catch (error) {
        // Refused at every attempt there is nothing to be done. Then it says so.
        if (!isResourcesExhausted(error)) throw error;
      }
      expect(memory.reserved).toBe(0);
      expect(memory.consumers.largest()).toEqual([]);
      expect(entries(parent)).toEqual([]);
    });
    await fc.assert(property, { numRuns: runs });
  });

  test('a pool of six blocks is enough for any input', async () => {
    const room = 6 * sizes.blockBytes;
    let spilled = 0;
    const property = fc.asyncProperty(inputs, async (input) => {
      const { keys, batches, share: _, refusals: __, ...rest } = input;
      const memory: RefusingPool = new RefusingPool((bytes) => memory.reserved + bytes > room, {
        spillExemption: 2 * sizes.batchBytes,
      });
      // A batch has to fit as a whole.
      const fitting = batches.map((size) => Math.min(size, 60));
      const places = await sort(keys, fitting, { ...rest, ...sizes, memory });
      expect(places).toEqual(expected(keys, fixed, rest.descending));
      expect(memory.reserved).toBe(0);
      expect(entries(parent)).toEqual([]);
      if (memory.refusals > 0) spilled += 1;
    });
    await fc.assert(property, { numRuns: runs });
    expect(spilled).toBeGreaterThan(runs / 4);
  });
});
