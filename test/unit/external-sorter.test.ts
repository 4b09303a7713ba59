import fs from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  isResourcesExhausted,
  MemoryConsumer,
  type MemoryPool,
  UnboundedMemoryPool,
} from '../../lib/pool';
import {
  ExternalSorter,
  type ExternalSorterOptions,
  fixedRecords,
  prefixedRecords,
  SpillCodecError,
  SpillCorruptionError,
  SpillDirectory,
  SpillDirectoryError,
  SpillSpaceError,
  structuredCodec,
  values,
} from '../../lib/spill';
import { temporaryDirectory } from '../support/package';
import { drain, entries, RefusingPool } from '../support/spilling';
import { rejection } from './fakes';

const parent = path.join(temporaryDirectory(), 'spill');
const sizes = { blockBytes: 4096, batchBytes: 1024 };
let memory: MemoryPool = new UnboundedMemoryPool();

/** Numbers up and down, far from sorted. */
const numbers = (count: number) => Array.from({ length: count }, (_, i) => (i * 7919) % count);
const ascending = (count: number) => Array.from({ length: count }, (_, i) => i);

const byNumber = { compare: (a: number, b: number) => a - b, sizeOf: 64 };

function numberSorter(
  options: Partial<ExternalSorterOptions<number[]>> = {},
): ExternalSorter<number[]> {
  return new ExternalSorter<number[]>({
    rows: values(byNumber),
    memory,
    directory: { parent },
    ...sizes,
    ...options,
  });
}

function expectNothingLeft(): void {
  expect(entries(parent)).toEqual([]);
  expect(memory.reserved).toBe(0);
  expect(memory.consumers.largest()).toEqual([]);
}

afterEach(() => {
  try {
    expectNothingLeft();
  } finally {
    memory = new UnboundedMemoryPool();
    fs.rmSync(parent, { recursive: true, force: true });
  }
});

/** A pool of `room` bytes whose spill callbacks may go 2 KiB beyond it. */
function poolOf(room: number): RefusingPool {
  const pool: RefusingPool = new RefusingPool((bytes) => pool.reserved + bytes > room, {
    spillExemption: 2 * sizes.batchBytes,
  });
  return pool;
}

describe('ExternalSorter', () => {
  test('in memory, when there is room', async () => {
    const sorter = numberSorter();
    for (let at = 0; at < 5000; at += 100) await sorter.push(numbers(5000).slice(at, at + 100));
    expect((await drain(sorter.sorted())).flat()).toEqual(ascending(5000));
    expect(sorter.stats).toMatchObject({ rows: 5000, spills: 0, passes: 0, spilledBytes: 0 });
  });

  test('no rows, and empty batches', async () => {
    expect(await drain(numberSorter().sorted())).toEqual([]);
    const sorter = numberSorter();
    await sorter.push([]);
    await sorter.push([1]);
    await sorter.push([]);
    expect(await drain(sorter.sorted())).toEqual([[1]]);
    const records = new ExternalSorter({
      rows: fixedRecords({ recordBytes: 4, key: { offset: 0 } }),
      memory,
      directory: { parent },
    });
    await records.push(Buffer.alloc(0));
    expect(await drain(records.sorted())).toEqual([]);
  });

  test('with more runs than the fan-in it merges in several passes', async () => {
    const sorter = numberSorter({ fanIn: 2 });
    for (let at = 0; at < 2000; at += 100) {
      await sorter.push(numbers(2000).slice(at, at + 100));
      await sorter.spill();
    }
    expect((await drain(sorter.sorted())).flat()).toEqual(ascending(2000));
    expect(sorter.stats).toMatchObject({ spills: 20, passes: 18 });
  });

  test('refused the buffers of a wide merge it makes narrower ones', async () => {
    let most = Number.POSITIVE_INFINITY;
    memory = new RefusingPool((bytes) => memory.reserved + bytes > most);
    const sorter = numberSorter({ fanIn: 64 });
    for (let at = 0; at < 2000; at += 100) {
      await sorter.push(numbers(2000).slice(at, at + 100));
      await sorter.spill();
    }
    most = 3 * sizes.batchBytes;
    expect((await drain(sorter.sorted())).flat()).toEqual(ascending(2000));
    expect(sorter.stats.passes).toBeGreaterThan(0);
  });

  test('spills while its result is read, when somebody else needs the room', async () => {
    memory = poolOf(512 * 1024);
    const sorter = numberSorter();
    await sorter.push(numbers(1000));
    await sorter.spill();
    await sorter.push(numbers(1000).map((n) => n + 0.5));
    const sorted: number[] = [];
    const other = new MemoryConsumer('other').register(memory);
    for await (const batch of sorter.sorted()) {
      sorted.push(...batch);
      if (other.size === 0) {
        const held = sorter.stats.heldBytes;
        expect(held).toBeGreaterThan(0);
        await other.grow(512 * 1024 - memory.reserved + held / 2);
        expect(sorter.stats).toMatchObject({ spills: 2, heldBytes: 0 });
      }
    }
    other.close();
    expect(sorted).toEqual(ascending(2000).map((n) => n / 2));
  });

  test('the disk full at that moment: the result goes on from memory', async () => {
    memory = poolOf(512 * 1024);
    const directory = new SpillDirectory({ parent, maxBytes: 20_000 });
    const sorter = numberSorter({ directory });
    await sorter.push(numbers(4000));
    const sorted: number[] = [];
    const other = new MemoryConsumer('other').register(memory);
    let refused: unknown;
    for await (const batch of sorter.sorted()) {
      sorted.push(...batch);
      refused ??= await rejection(other.grow(512 * 1024 - memory.reserved + 4096));
    }
    other.close();
    expect(isResourcesExhausted(refused)).toBe(true);
    expect((refused as Error).cause).toBeInstanceOf(SpillSpaceError);
    expect(sorted).toEqual(ascending(4000));
    expect(directory.used).toBe(0);
    await directory.close();
  });

  test('a disk that is full leaves the sort as it was', async () => {
    memory = poolOf(64 * 1024);
    const directory = new SpillDirectory({ parent, maxBytes: 3000 });
    const sorter = numberSorter({ directory });
    const pushed: number[] = [];
    let refused: unknown;
    while (refused === undefined) {
      const batch = [pushed.length + 1, pushed.length];
      try {
        await sorter.push(batch);
        pushed.push(...batch);
      } catch (error) {
        refused = error;
      }
    }
    expect(isResourcesExhausted(refused)).toBe(true);
    expect((refused as Error).cause).toMatchObject({ code: 'ERR_OOM_GUARD_SPILL_BUDGET' });
    expect(((await rejection(sorter.spill())) as Error).cause).toBeInstanceOf(SpillSpaceError);
    expect(directory.used).toBe(0);
    expect((await drain(sorter.sorted())).flat()).toEqual(ascending(pushed.length));
    await directory.close();
  });

  test('a codec error in the middle ends it, for every later call', async () => {
    memory = poolOf(64 * 1024);
    const problem = new Error('no');
    let encoded = 0;
    const codec = {
      ...structuredCodec<number[]>(),
      encode: (batch: number[]) => {
        encoded += 1;
        if (encoded === 5) throw problem;
        return structuredCodec<number[]>().encode(batch);
      },
    };
    const sorter = numberSorter({ rows: values({ ...byNumber, codec }) });
    const error = await rejection(
      (async () => {
        for (let i = 0; i < 5000; i += 10) await sorter.push(numbers(10));
      })(),
    );
    expect(error).toBeInstanceOf(SpillCodecError);
    expect(error).toMatchObject({ operation: 'encode', cause: problem });
    expect(await rejection(sorter.push([1]))).toBe(error);
    expect(() => sorter.sorted()).toThrow(error as Error);
    await sorter.close();
    expectNothingLeft();
  });

  test('a codec error while merging ends it', async () => {
    const problem = new Error('no');
    const codec = {
      ...structuredCodec<number[]>(),
      decode: () => {
        throw problem;
      },
    };
    const sorter = numberSorter({ rows: values({ ...byNumber, codec }) });
    await sorter.push(numbers(100));
    await sorter.spill();
    expect(await rejection(drain(sorter.sorted()))).toMatchObject({
      code: 'ERR_OOM_GUARD_SPILL_CODEC',
      operation: 'decode',
      cause: problem,
    });
    expectNothingLeft();
  });

  test('a run that was damaged on disk ends it', async () => {
    const directory = new SpillDirectory({ parent });
    const sorter = numberSorter({ directory });
    await sorter.push(numbers(1000));
    await sorter.spill();
    const [name = ''] = fs.readdirSync(directory.path).filter((file) => file.endsWith('.spill'));
    const file = await open(path.join(directory.path, name), 'r+');
    await file.write(Buffer.from('damage'), 0, 6, 3000);
    await file.close();
    const error = await rejection(drain(sorter.sorted()));
    expect(error).toBeInstanceOf(SpillCorruptionError);
    expect(fs.readdirSync(directory.path).filter((file) => file.endsWith('.spill'))).toEqual([]);
    expect(memory.reserved).toBe(0);
    await directory.close();
  });

  test('a comparator that throws ends it with what it threw', async () => {
    const problem = new Error('cannot compare');
    const compare = () => {
      throw problem;
    };
    const objects = numberSorter({ rows: values<number>({ compare }) });
    expect(await rejection(drain(objects.sort([[1, 2, 3]])))).toBe(problem);
    const records = new ExternalSorter({
      rows: fixedRecords({ recordBytes: 4, compare }),
      memory,
      directory: { parent },
      ...sizes,
    });
    expect(await rejection(drain(records.sort([Buffer.alloc(4000)])))).toBe(problem);
    await records.push(Buffer.alloc(4)).catch(() => undefined);
    expectNothingLeft();
  });

  test('a source that fails ends it', async () => {
    const problem = new Error('no more');
    async function* source() {
      yield [3, 1];
      throw problem;
    }
    const sorter = numberSorter();
    expect(await rejection(drain(sorter.sort(source())))).toBe(problem);
    expectNothingLeft();
  });

  test('a reader that stops early ends it', async () => {
    const sorter = numberSorter();
    await sorter.push(numbers(1000));
    await sorter.spill();
    for await (const batch of sorter.sorted()) {
      expect(batch[0]).toBe(0);
      break;
    }
    expectNothingLeft();
  });

  test.each(['before', 'pushing', 'source', 'waiting', 'merging'])('aborted: %s', async (when) => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const { signal } = controller;
    const abort = () => controller.abort(reason);
    if (when === 'before') abort();
    if (when === 'waiting') memory = new NeverPool();
    const sorter = numberSorter({ signal });
    const work = async () => {
      if (when === 'source') {
        setTimeout(abort, 5);
        const silent = {
          [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }),
        };
        return drain(sorter.sort(silent));
      }
      if (when === 'waiting') setTimeout(abort, 5);
      await sorter.push(numbers(1000));
      if (when === 'pushing') abort();
      await sorter.push(numbers(1000));
      await sorter.spill();
      for await (const _ of sorter.sorted()) abort();
    };
    expect(await rejection(work())).toBe(reason);
    expect(await rejection(sorter.push([1]))).toBe(reason);
    await sorter.close();
    expectNothingLeft();
  });

  test('closed in the middle of everything, twice, nothing is left', async () => {
    const sorter = numberSorter();
    const work = Promise.allSettled([
      sorter.push(numbers(1000)),
      sorter.spill(),
      sorter.push(numbers(1000)),
      sorter.spill(),
      sorter.push(numbers(1000)),
    ]);
    await Promise.all([sorter.close(), sorter.close()]);
    await work;
    await sorter.close();
    expectNothingLeft();
    expect(await rejection(sorter.push([1]))).toMatchObject({ code: 'ERR_OOM_GUARD_CLOSED' });
    expect(() => sorter.sorted()).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_CLOSED' }),
    );
    await sorter.spill();
  });

  test('takes no more rows once its result is asked for, and gives it once', async () => {
    const sorter = numberSorter();
    const pushed = sorter.push([2, 1]);
    const result = sorter.sorted();
    expect(await rejection(sorter.push([0]))).toMatchObject({ code: 'ERR_OOM_GUARD_CLOSED' });
    expect(() => sorter.sorted()).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_CLOSED' }),
    );
    expect(await drain(result)).toEqual([[1, 2]]);
    await pushed;
  });

  test('a batch that is none is refused, and nothing changes', async () => {
    const sorter = new ExternalSorter({
      rows: prefixedRecords({ prefix: 'uint16le', key: { offset: 0 } }),
      memory,
      directory: { parent },
    });
    await sorter.push(Buffer.from([1, 0, 7]));
    for (const bad of [Buffer.from([1]), Buffer.from([1, 0, 6, 2, 0, 5]), 'text', [1], null]) {
      expect(await rejection(sorter.push(bad as never))).toMatchObject({
        code: 'ERR_OOM_GUARD_INVALID_ARGUMENT',
      });
    }
    await sorter.push(Buffer.from([1, 0, 6]));
    expect(await drain(sorter.sorted())).toEqual([Buffer.from([1, 0, 6, 1, 0, 7])]);
  });

  test('records larger than a block', async () => {
    const sorter = new ExternalSorter({
      rows: prefixedRecords({ prefix: 'uint32be', key: { offset: 0 } }),
      memory,
      directory: { parent },
      ...sizes,
    });
    const record = (first: number, length: number) => {
      const bytes = Buffer.alloc(4 + length, first);
      bytes.writeUInt32BE(length);
      return bytes;
    };
    const records = [record(3, 10_000), record(1, 5), record(2, 70_000), record(0, 4096)];
    for (const each of records) {
      await sorter.push(each);
      if (each.length > 50_000) await sorter.spill();
    }
    const result = Buffer.concat(await drain(sorter.sorted()));
    expect(result).toEqual(Buffer.concat([3, 1, 2, 0].map((i) => records[i] as Buffer)));
  });

  test('batches of the result are the reader’s to keep, unless told otherwise', async () => {
    const make = (reuseBatches: boolean) =>
      new ExternalSorter({
        rows: fixedRecords({ recordBytes: 8, key: { offset: 0 } }),
        memory,
        directory: { parent },
        ...sizes,
        reuseBatches,
      });
    const rows = Buffer.alloc(8 * 1000);
    for (let i = 0; i < 1000; i++) rows.writeUInt32BE((i * 7919) % 1000, 8 * i);
    const first = (batch: Buffer) => batch.readUInt32BE(0);
    const kept = await drain(make(false).sort([rows]));
    expect(kept.map(first)).toEqual(kept.map((_, i) => i * 128));
    const reused = await drain(make(true).sort([rows]));
    expect(new Set(reused.map(({ buffer }) => buffer)).size).toBe(2);
  });

  test('an unusable directory is said at once, and nothing is reserved', () => {
    expect(() => numberSorter({ directory: { parent: '/proc/nowhere' } })).toThrow(
      SpillDirectoryError,
    );
    expectNothingLeft();
  });

  test.each<[string, object]>([
    ['rows', { rows: undefined }],
    ['rows', { rows: {} }],
    ['memory', { memory: undefined }],
    ['memory', { memory: {} }],
    ['fanIn', { fanIn: 1 }],
    ['fanIn', { fanIn: 2.5 }],
    ['fanIn', { fanIn: '4' }],
    ['blockBytes', { blockBytes: 100 }],
    ['blockBytes', { blockBytes: 'much' }],
    ['batchBytes', { batchBytes: 2 ** 30 }],
    ['signal', { signal: {} }],
    ['consumer name', { name: '' }],
  ])('refuses %s of %o', (name, options) => {
    expect(() => numberSorter(options)).toThrow(
      expect.objectContaining({
        code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_(ARGUMENT|SIZE)$/),
        message: expect.stringContaining(name),
      }),
    );
    expectNothingLeft();
  });

  test.each([
    () => fixedRecords({ recordBytes: 0, key: { offset: 0 } }),
    () => fixedRecords({ recordBytes: 10, key: { offset: 10 } }),
    () => fixedRecords({ recordBytes: 10, key: { offset: 5, length: 6 } }),
    () => fixedRecords({ recordBytes: 10, key: { offset: -1 } }),
    () => fixedRecords({ recordBytes: 10 } as never),
    () => fixedRecords({ recordBytes: 10, key: { offset: 0 }, compare: () => 0 } as never),
    () => prefixedRecords({ prefix: 'uint8' as never, key: { offset: 0 } }),
    () => values({ compare: 'id' as never }),
    () => values({ compare: () => 0, sizeOf: -1 }),
  ])('refuses an order or layout that makes no sense (%#)', (make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }));
  });
});

/** Keeps whoever asks waiting for ever. */
class NeverPool extends UnboundedMemoryPool {
  override requestGrow(): 'pool' {
    return 'pool';
  }

  protected override async reclaim(): Promise<never> {
    return new Promise(() => {});
  }
}
