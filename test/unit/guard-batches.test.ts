import { describe, expect, it } from 'vitest';
import { guardBatches } from '../../lib/breaker';
import { ResourcesExhaustedError } from '../../lib/errors';
import { rejection } from './fakes';

/** A breaker that trips at the given check, counting from 1. */
function tripsAt(check: number) {
  return {
    limit: 100,
    lastUsage: 150,
    checks: 0,
    check() {
      return ++this.checks >= check;
    },
  };
}

/** A source that tells what happens to it. */
function source(batches: readonly unknown[], log: string[]): AsyncIterable<unknown> {
  return {
    [Symbol.asyncIterator]() {
      let i = 0;
      return {
        async next() {
          log.push('next');
          return i < batches.length
            ? { done: false as const, value: batches[i++] }
            : { done: true as const, value: undefined };
        },
        async return() {
          await null;
          log.push('closed');
          return { done: true as const, value: undefined };
        },
      };
    },
  };
}

async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of iterable) {
    all.push(item);
  }
  return all;
}

describe('guardBatches', () => {
  it('passes the same objects through in order and checks after each', async () => {
    const batches = [{ a: 1 }, Buffer.from('b'), null, undefined, [3]];
    const log: string[] = [];
    const breaker = tripsAt(Number.POSITIVE_INFINITY);
    const seen = await collect(guardBatches(source(batches, log), { breaker }));
    expect(seen).toHaveLength(batches.length);
    for (const [i, batch] of batches.entries()) {
      expect(seen[i]).toBe(batch);
    }
    expect(breaker.checks).toBe(batches.length);
    expect(log.filter((entry) => entry === 'closed')).toEqual([]);
  });

  it('takes sync iterables, with promises in them too', async () => {
    const breaker = tripsAt(Number.POSITIVE_INFINITY);
    expect(await collect(guardBatches([1, Promise.resolve(2), 3], { breaker }))).toEqual([1, 2, 3]);
    expect(await collect(guardBatches(new Set(['x']), { breaker }))).toEqual(['x']);
    expect(await collect(guardBatches([], { breaker }))).toEqual([]);
  });

  it('pulls nothing before it is asked', async () => {
    const log: string[] = [];
    const guarded = guardBatches(source([1, 2], log), { breaker: tripsAt(9) });
    await Promise.resolve();
    expect(log).toEqual([]);
    await guarded.next();
    expect(log).toEqual(['next']);
  });

  it('closes the source, waits for it and fails when the breaker has tripped', async () => {
    const log: string[] = [];
    const seen: unknown[] = [];
    const guarded = guardBatches(source([1, 2, 3], log), {
      breaker: tripsAt(2),
      name: 'report-17',
      describe: () => ({ reserved: 40, live: 120, consumers: [] }),
    });
    const error = await rejection(
      (async () => {
        for await (const batch of guarded) {
          seen.push(batch);
        }
      })(),
    );
    expect(error).toBeInstanceOf(ResourcesExhaustedError);
    expect(error).toMatchObject({
      source: 'breaker',
      consumer: 'report-17',
      limit: 100,
      measured: 150,
      reserved: 40,
      live: 120,
      requested: 0,
    });
    expect((error as Error).message).toContain('Task report-17 was shed');
    expect(seen).toEqual([1]);
    expect(log).toEqual(['next', 'next', 'closed']);
    expect(await guarded.next()).toEqual({ done: true, value: undefined });
    expect(log).toHaveLength(3);
  });

  it('names what closing the source threw as the cause', async () => {
    const broken = new Error('will not close');
    const error = await rejection(
      collect(
        guardBatches(
          {
            [Symbol.asyncIterator]: () => ({
              next: async () => ({ done: false as const, value: 1 }),
              return: async () => {
                throw broken;
              },
            }),
          },
          { breaker: tripsAt(1) },
        ),
      ),
    );
    expect(error).toMatchObject({ source: 'breaker', cause: broken });
  });

  it.each(['async', 'sync'])(
    'lets an error of a source (%s) win over a tripped breaker',
    async (kind) => {
      const failure = new Error('source');
      const breaker = tripsAt(1);
      const next = () => {
        throw failure;
      };
      const iterable =
        kind === 'sync'
          ? { [Symbol.iterator]: () => ({ next }) }
          : { [Symbol.asyncIterator]: () => ({ next: async () => next() }) };
      const guarded = guardBatches(iterable as AsyncIterable<number>, { breaker });
      expect(await rejection(guarded.next())).toBe(failure);
      expect(breaker.checks).toBe(0);
      expect(await guarded.next()).toEqual({ done: true, value: undefined });
    },
  );

  it('lets the end of a source win over a tripped breaker', async () => {
    const breaker = tripsAt(1);
    expect(await collect(guardBatches([], { breaker }))).toEqual([]);
    expect(breaker.checks).toBe(0);
  });

  it('closes a sync source when a promise in it rejects', async () => {
    let closed = false;
    function* batches() {
      try {
        yield Promise.reject(new Error('batch'));
      } finally {
        closed = true;
      }
    }
    const error = await rejection(collect(guardBatches(batches(), { breaker: tripsAt(9) })));
    expect(error).toMatchObject({ message: 'batch' });
    expect(closed).toBe(true);
  });

  it('closes the source once when it is left early', async () => {
    const log: string[] = [];
    const guarded = guardBatches(source([1, 2, 3], log), { breaker: tripsAt(9) });
    for await (const _ of guarded) {
      break;
    }
    await guarded.return?.();
    await guarded[Symbol.asyncDispose]();
    expect(log).toEqual(['next', 'closed']);
    expect(await guarded.next()).toEqual({ done: true, value: undefined });
  });

  it('closes the source on throw() and rejects with what was thrown', async () => {
    const log: string[] = [];
    const guarded = guardBatches(source([1], log), { breaker: tripsAt(9) });
    const failure = new Error('reader');
    expect(await rejection(guarded.throw?.(failure) as Promise<unknown>)).toBe(failure);
    expect(log).toEqual(['closed']);
  });

  it.each([[undefined], [null], [5], [{}]])('refuses %s as a source', (bad) => {
    expect(() => guardBatches(bad as never, { breaker: tripsAt(1) })).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
    );
  });
});
