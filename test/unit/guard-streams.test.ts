import { PassThrough, Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ReadableStream, WritableStream } from 'node:stream/web';
import { describe, expect, it } from 'vitest';
import { type BatchBreaker, guardTransform, guardTransformStream } from '../../lib/breaker';
import { ResourcesExhaustedError } from '../../lib/errors';
import { rejection } from './fakes';

/** Trips at the check of that number; `later` says so by a promise. */
function breaker(at = Number.POSITIVE_INFINITY, later = false) {
  const made = {
    checks: 0,
    limit: 100,
    lastUsage: 101,
    check(): boolean | Promise<boolean> {
      made.checks += 1;
      const tripped = made.checks >= at;
      return later ? new Promise((resolve) => setImmediate(() => resolve(tripped))) : tripped;
    },
  };
  return made satisfies BatchBreaker & { checks: number };
}

const sink = (into: unknown[]) =>
  new Writable({
    objectMode: true,
    highWaterMark: 1,
    write(chunk, _encoding, done) {
      into.push(chunk);
      setImmediate(done);
    },
  });

describe.each([[false], [true]])('guardTransform, verdicts by promise: %s', (later) => {
  it('passes objects through untouched and in order, one check each', async () => {
    const objects = Array.from({ length: 100 }, (_, i) => ({ i }));
    const seen: unknown[] = [];
    const b = breaker(Number.POSITIVE_INFINITY, later);
    await pipeline(
      Readable.from(objects),
      guardTransform({ breaker: b, objectMode: true }),
      sink(seen),
    );
    expect(seen).toEqual(objects);
    expect(seen.every((object, i) => object === objects[i])).toBe(true);
    expect(b.checks).toBe(100);
  });

  it('passes bytes through untouched, split characters and empty chunks too', async () => {
    const text = Buffer.from('höher größer – ẞ 👍'.repeat(1000));
    const chunks: Buffer[] = [];
    for (let i = 0; i < text.length; i += 7) chunks.push(text.subarray(i, i + 7));
    chunks.splice(10, 0, Buffer.alloc(0));
    const seen: Buffer[] = [];
    const source = new PassThrough();
    const done = pipeline(
      source,
      guardTransform({ breaker: breaker(Number.POSITIVE_INFINITY, later) }),
      sink(seen),
    );
    for (const chunk of chunks) source.write(chunk);
    source.end();
    await done;
    expect(Buffer.concat(seen).equals(text)).toBe(true);
  });

  it('fails with the error of a shed task, and the source is closed', async () => {
    const seen: unknown[] = [];
    const source = Readable.from(Array.from({ length: 100 }, (_, i) => ({ i })));
    const error = await rejection(
      pipeline(
        source,
        guardTransform({ breaker: breaker(4, later), name: 'rows', objectMode: true }),
        sink(seen),
      ),
    );
    expect(error).toBeInstanceOf(ResourcesExhaustedError);
    expect(error).toMatchObject({ source: 'breaker', consumer: 'rows', limit: 100, measured: 101 });
    expect(seen).toHaveLength(3);
    expect(source.destroyed).toBe(true);
  });

  it("fails with the task's own error where there is one", async () => {
    const own = new Error('own');
    const b = { ...breaker(), check: () => true, error: own };
    expect(
      await rejection(pipeline(Readable.from(['a']), guardTransform({ breaker: b }), sink([]))),
    ).toBe(own);
  });

  it('holds one chunk, not more, while nobody reads', async () => {
    let given = 0;
    const source = new Readable({
      objectMode: true,
      highWaterMark: 1,
      read() {
        given += 1;
        this.push({ given });
      },
    });
    const transform = guardTransform({
      breaker: breaker(Number.POSITIVE_INFINITY, later),
      objectMode: true,
    });
    source.pipe(transform);
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    const unread = given;
    expect(unread).toBeLessThanOrEqual(3);
    expect(transform.read()).toEqual({ given: 1 });
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(given - unread).toBeLessThanOrEqual(2);
    source.destroy();
    transform.destroy();
  });

  it('lets an error of the source win, and closes it when the reader leaves', async () => {
    const failure = new Error('source');
    async function* failing() {
      yield { a: 1 };
      throw failure;
    }
    const guarded = () =>
      guardTransform({ breaker: breaker(Number.POSITIVE_INFINITY, later), objectMode: true });
    expect(await rejection(pipeline(Readable.from(failing()), guarded(), sink([])))).toBe(failure);
    const endless = Readable.from(
      (function* () {
        for (let i = 0; ; i++) yield { i };
      })(),
    );
    const transform = guarded();
    const piped = pipeline(endless, transform, new PassThrough({ objectMode: true }));
    transform.destroy(new Error('leaves'));
    expect(await rejection(piped)).toMatchObject({ message: 'leaves' });
    expect(endless.destroyed).toBe(true);
  });
});

describe.each([[false], [true]])('guardTransformStream, verdicts by promise: %s', (later) => {
  const source = (count: number, onCancel: (reason: unknown) => void = () => undefined) => {
    let i = 0;
    return new ReadableStream<{ i: number }>(
      {
        pull(controller) {
          if (i === count) controller.close();
          else controller.enqueue({ i: i++ });
        },
        cancel: onCancel,
      },
      { highWaterMark: 0 },
    );
  };

  it('passes chunks through untouched and in order', async () => {
    const seen: unknown[] = [];
    const b = breaker(Number.POSITIVE_INFINITY, later);
    await source(50)
      .pipeThrough(guardTransformStream<{ i: number }>({ breaker: b }))
      .pipeTo(new WritableStream({ write: (chunk) => void seen.push(chunk) }));
    expect(seen).toEqual(Array.from({ length: 50 }, (_, i) => ({ i })));
    expect(b.checks).toBe(50);
  });

  it('fails with the error of a shed task, and cancels the source with it', async () => {
    const seen: unknown[] = [];
    let cancelled: unknown;
    const error = await rejection(
      source(50, (reason) => {
        cancelled = reason;
      })
        .pipeThrough(guardTransformStream({ breaker: breaker(4, later), name: 'rows' }))
        .pipeTo(new WritableStream({ write: (chunk) => void seen.push(chunk) })),
    );
    expect(error).toMatchObject({ source: 'breaker', consumer: 'rows' });
    expect(cancelled).toBe(error);
    expect(seen).toHaveLength(3);
  });
});

describe('bad input', () => {
  it.each<[string, () => unknown]>([
    ['no options', () => guardTransform(undefined as never)],
    ['no breaker', () => guardTransform({} as never)],
    [
      'objectMode that is none',
      () => guardTransform({ breaker: breaker(), objectMode: 1 as never }),
    ],
    ['no breaker for a Web stream', () => guardTransformStream({} as never)],
  ])('%s', (_name, make) => {
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }));
  });
});
