import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import {
  fixedRecordCodec,
  prefixedRecordCodec,
  type SpillCodec,
  SpillCodecError,
  SpillCorruptionError,
  SpillDirectory,
  SpillDirectoryError,
  type SpillFile,
  SpillSpaceError,
  structuredCodec,
} from '../../lib/spill';
import { temporaryDirectory } from '../support/package';
import { drain, entries } from '../support/spilling';
import { rejection } from './fakes';

const parent = path.join(temporaryDirectory(), 'spill');
const directories: SpillDirectory[] = [];

function makeDirectory(options: { maxBytes?: number | string } = {}): SpillDirectory {
  const directory = new SpillDirectory({ parent, ...options });
  directories.push(directory);
  return directory;
}

afterEach(async () => {
  await Promise.all(directories.splice(0).map((directory) => directory.close()));
  expect(entries(parent)).toEqual([]);
});

const bytes: SpillCodec<Uint8Array> = { name: 'bytes', encode: (b) => b, decode: (b) => b };

async function fileOf(batches: Uint8Array[]): Promise<SpillFile<Uint8Array>> {
  const file = makeDirectory().createFile(bytes);
  for (const batch of batches) await file.append(batch);
  return file;
}

describe('SpillFile', () => {
  test('gives back what was appended, in order, any number of times', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 5000 }), { maxLength: 20 }),
        async (batches) => {
          const file = await fileOf(batches);
          const plain = batches.map((batch) => Buffer.from(batch));
          expect(await drain(file)).toEqual(plain);
          const [first, second] = await Promise.all([drain(file.read()), drain(file.read())]);
          expect(first).toEqual(plain);
          expect(second).toEqual(plain);
          expect(file.batches).toBe(batches.length);
          expect(file.bytes).toBe(batches.reduce((sum, { length }) => sum + length + 16, 0));
          await file.close();
        },
      ),
      { numRuns: 40 },
    );
  });

  test('appends that are not awaited are written in order; an iteration sees those before it', async () => {
    const file = makeDirectory().createFile(bytes);
    const batches = Array.from({ length: 50 }, (_, i) => Buffer.alloc(i * 100, i));
    await Promise.all(batches.slice(0, 49).map((batch) => file.append(batch)));
    const reading = file.read();
    expect((await reading.next()).value).toEqual(batches[0]);
    await file.rest();
    await file.append(batches[49] as Buffer);
    expect(await drain(reading)).toEqual(batches.slice(1, 49));
    expect(await drain(file)).toEqual(batches);
  });

  test('structured values come back as they were', async () => {
    const cycle: { self?: unknown; when: Date } = { when: new Date(5) };
    cycle.self = cycle;
    const file = makeDirectory().createFile(structuredCodec<unknown>());
    const batches = [
      [1, 'zwölf', 12n, null],
      { map: new Map([[1, Buffer.from('ab')]]) },
      cycle,
      [],
    ];
    for (const batch of batches) await file.append(batch);
    const all = await drain(file);
    expect(all.slice(0, 2)).toEqual([batches[0], { map: new Map([[1, Buffer.from('ab')]]) }]);
    expect((all[2] as typeof cycle).self).toBe(all[2]);
  });

  test('Buffers of two batches that are kept do not share memory', async () => {
    const file = makeDirectory().createFile(structuredCodec<Buffer>());
    await file.append(Buffer.alloc(1000, 1));
    await file.append(Buffer.alloc(1000, 2));
    const [first, second] = await drain(file);
    expect(first).toEqual(Buffer.alloc(1000, 1));
    expect(second).toEqual(Buffer.alloc(1000, 2));
  });

  test('record codecs refuse records that are cut off', async () => {
    const fixed = makeDirectory().createFile(fixedRecordCodec(10));
    await fixed.append(Buffer.alloc(30));
    expect(await rejection(fixed.append(Buffer.alloc(31)))).toMatchObject({
      code: 'ERR_OOM_GUARD_SPILL_CODEC',
      operation: 'encode',
      message: expect.stringContaining('record 3 cut off at byte 30'),
    });
    const prefixed = makeDirectory().createFile(prefixedRecordCodec('uint16be'));
    await prefixed.append(Buffer.from([0, 1, 7, 0, 0]));
    for (const bad of [[0], [0, 2, 7], [0, 1, 7, 0], [255, 255, 1]]) {
      const error = await rejection(prefixed.append(Buffer.from(bad)));
      expect(error).toBeInstanceOf(SpillCodecError);
    }
    expect(await drain(prefixed)).toEqual([Buffer.from([0, 1, 7, 0, 0])]);
    expect(await drain(fixed)).toEqual([Buffer.alloc(30)]);
  });

  test('a codec that throws, or gives no bytes: the batches before are there, and more can come', async () => {
    const problem = new Error('no');
    const codec: SpillCodec<number> = {
      name: 'moody',
      encode: (batch) => {
        if (batch === 2) throw problem;
        return batch === 3 ? ('three' as never) : Buffer.from([batch]);
      },
      decode: (payload) => {
        if (payload[0] === 4) throw problem;
        return payload[0] as number;
      },
    };
    const file = makeDirectory().createFile(codec);
    await file.append(1);
    expect(await rejection(file.append(2))).toMatchObject({
      name: 'SpillCodecError',
      code: 'ERR_OOM_GUARD_SPILL_CODEC',
      path: file.path,
      cause: problem,
    });
    expect(await rejection(file.append(3))).toBeInstanceOf(SpillCodecError);
    expect(await drain(file)).toEqual([1]);
    await file.append(4);
    expect(await rejection(drain(file))).toMatchObject({ operation: 'decode', cause: problem });
  });

  test('the bytes that structured values were written as are given back at once', async () => {
    const encoded: Uint8Array[] = [];
    const codec = structuredCodec<Buffer>();
    const file = makeDirectory().createFile<Buffer>({
      ...codec,
      encode: (batch) => {
        const payload = codec.encode(batch);
        encoded.push(payload);
        return payload;
      },
    });
    await file.append(Buffer.alloc(100_000, 1));
    await file.append(Buffer.alloc(100_000, 2));
    expect(encoded.map(({ length }) => length)).toEqual([0, 0]);
    expect((await drain(file)).map((batch) => batch[0])).toEqual([1, 2]);
  });

  test('functions cannot be cloned: a codec error', async () => {
    const file = makeDirectory().createFile(structuredCodec<unknown>());
    expect(await rejection(file.append([() => {}]))).toBeInstanceOf(SpillCodecError);
    expect(fs.existsSync(file.path)).toBe(false);
  });

  test('closed: says so, and its bytes are off the budget', async () => {
    const directory = makeDirectory();
    const file = directory.createFile(bytes);
    await file.append(Buffer.alloc(100));
    expect(directory.used).toBe(116);
    const reading = file.read();
    await reading.next();
    await Promise.all([file.close(), file.close()]);
    expect(directory.used).toBe(0);
    expect(fs.existsSync(file.path)).toBe(false);
    const closed = { code: 'ERR_OOM_GUARD_CLOSED' };
    expect(await rejection(file.append(Buffer.alloc(1)))).toMatchObject(closed);
    expect(await rejection(file.read().next())).toMatchObject(closed);
    expect(await rejection(reading.next())).toMatchObject(closed);
  });
});

describe('what was damaged on disk', () => {
  const batches = [randomBytes(1000), randomBytes(5000), randomBytes(10)];
  const starts = [0, 1016, 6032];

  async function flip(file: string, at: number): Promise<void> {
    const handle = await open(file, 'r+');
    const byte = Buffer.alloc(1);
    await handle.read(byte, 0, 1, at);
    byte[0] = (byte[0] as number) ^ 0x10;
    await handle.write(byte, 0, 1, at);
    await handle.close();
  }

  test('any flipped bit is found, with the batch it is in', async () => {
    const file = await fileOf(batches);
    const positions = [0, 4, 8, 12, 16, 500, 1015, 1016, 1020, 1024, 1028, 3000, 6031, 6032, 6057];
    for (const at of positions) {
      await flip(file.path, at);
      const error = await rejection(drain(file));
      expect(error, `byte ${at}`).toBeInstanceOf(SpillCorruptionError);
      expect(error).toMatchObject({
        code: 'ERR_OOM_GUARD_SPILL_CORRUPT',
        path: file.path,
        offset: starts.findLast((start) => start <= at),
        expected: expect.any(String),
        found: expect.any(String),
      });
      await flip(file.path, at);
    }
    expect(await drain(file)).toEqual(batches);
  });

  test.each([6057, 6031, 1020, 1016, 10, 0])('cut off at byte %i', async (length) => {
    const file = await fileOf(batches);
    await file.rest();
    fs.truncateSync(file.path, length);
    const error = await rejection(drain(file));
    expect(error).toBeInstanceOf(SpillCorruptionError);
    expect(String(error)).toContain(
      `expected 6058 bytes in the file, found its end at byte ${length}`,
    );
  });

  test('batches in another order', async () => {
    const file = await fileOf([Buffer.alloc(10, 1), Buffer.alloc(10, 2)]);
    const content = fs.readFileSync(file.path);
    fs.writeFileSync(file.path, Buffer.concat([content.subarray(26), content.subarray(0, 26)]));
    expect(String(await rejection(drain(file)))).toContain('expected batch 0, found batch 1');
  });

  test('removed behind our back', async () => {
    const file = await fileOf([Buffer.alloc(10)]);
    fs.rmSync(file.path);
    expect(await rejection(drain(file))).toMatchObject({
      code: 'ERR_OOM_GUARD_SPILL_IO',
      cause: { code: 'ENOENT' },
    });
  });
});

describe('SpillDirectory', () => {
  test('is readable by its user only, and files come with their first batch', async () => {
    const directory = makeDirectory();
    expect(fs.statSync(directory.path).mode & 0o777).toBe(0o700);
    const file = directory.createFile(bytes);
    expect(fs.existsSync(file.path)).toBe(false);
    await file.append(Buffer.alloc(1));
    expect(fs.statSync(file.path).mode & 0o777).toBe(0o600);
  });

  test('closing removes files that are being written and read', async () => {
    const directory = makeDirectory();
    const file = directory.createFile(bytes);
    await file.append(Buffer.alloc(1000));
    const reading = file.read();
    await reading.next();
    const appending = Promise.allSettled([file.append(Buffer.alloc(1000))]);
    await directory.close();
    await appending;
    expect(fs.existsSync(directory.path)).toBe(false);
    expect(() => directory.createFile(bytes)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_CLOSED' }),
    );
  });

  test('a budget: refused beyond it, with the figures, and nothing is lost', async () => {
    const directory = makeDirectory({ maxBytes: 1000 });
    const file = directory.createFile(bytes);
    const other = directory.createFile(bytes);
    await file.append(Buffer.alloc(400, 1));
    await other.append(Buffer.alloc(400, 2));
    const error = await rejection(file.append(Buffer.alloc(400, 3)));
    expect(error).toBeInstanceOf(SpillSpaceError);
    expect(error).toMatchObject({
      code: 'ERR_OOM_GUARD_SPILL_BUDGET',
      requested: 416,
      used: 832,
      maxBytes: 1000,
    });
    expect(await drain(file)).toEqual([Buffer.alloc(400, 1)]);
    await other.close();
    await file.append(Buffer.alloc(400, 3));
    expect(await drain(file)).toEqual([Buffer.alloc(400, 1), Buffer.alloc(400, 3)]);
    // To the byte.
    await file.append(Buffer.alloc(1000 - 832 - 16));
    expect(directory.used).toBe(1000);
  });

  test.each([
    [
      'a file',
      () => {
        const file = path.join(path.dirname(parent), 'file');
        fs.writeFileSync(file, '');
        return file;
      },
    ],
    ['a directory below a file', () => path.join(path.dirname(parent), 'file', 'below')],
    ['where nothing can be made', () => '/proc/spill'],
  ])('%s as parent: said at once', (_, make) => {
    const place = make();
    expect(() => new SpillDirectory({ parent: place })).toThrow(SpillDirectoryError);
    expect(() => new SpillDirectory({ parent: place })).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_SPILL_DIRECTORY', path: place }),
    );
  });

  test.each([
    { parent: '' },
    { parent: 5 as never },
    { maxBytes: 0 },
    { maxBytes: -1 },
    { maxBytes: '50%' },
    { maxBytes: 'a lot' },
  ])('refuses %o', (options) => {
    expect(() => new SpillDirectory(options)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/INVALID_(SIZE|ARGUMENT)/) }),
    );
  });
});
