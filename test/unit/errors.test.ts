import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import {
  findResourcesExhausted,
  isResourcesExhausted,
  ResourcesExhaustedError,
} from '../../lib/errors';

const MIB = 2 ** 20;

function makeError(): ResourcesExhaustedError {
  return new ResourcesExhaustedError({
    requested: 100 * MIB,
    source: 'usage',
    consumer: 'rows#7',
    reserved: 300 * MIB,
    limit: 500 * MIB,
    measured: 450 * MIB,
    available: 50 * MIB,
    live: 400 * MIB,
    consumers: [
      {
        id: 7,
        name: 'rows',
        reserved: 200 * MIB,
        overcommitted: 0,
        peak: 200 * MIB,
        canSpill: true,
        in: 'native',
      },
      {
        id: 9,
        name: 'cache',
        reserved: 100 * MIB,
        overcommitted: 10 * MIB,
        peak: 100 * MIB,
        canSpill: false,
        in: 'native',
      },
    ],
    spillFailures: ['rows#7 freed nothing'],
  });
}

describe('ResourcesExhaustedError', () => {
  it('tells the numbers in units for people', () => {
    const error = makeError();
    expect(error.message).toBe(
      'Cannot reserve 100 MiB for rows#7: the limit of memory usage is 500 MiB, 450 MiB in use, ' +
        '50 MiB available (live 400 MiB, reserved 300 MiB). Largest consumers: ' +
        'rows#7 200 MiB (can spill); cache#9 100 MiB (cannot spill, 10 MiB overcommitted). ' +
        'Spilling did not help: rows#7 freed nothing.',
    );
    expect(error).toMatchObject({
      name: 'ResourcesExhaustedError',
      code: 'ERR_OOM_GUARD_RESOURCES_EXHAUSTED',
      requested: 100 * MIB,
      live: 400 * MIB,
      reserved: 300 * MIB,
      limit: 500 * MIB,
      available: 50 * MIB,
      source: 'usage',
      consumer: 'rows#7',
    });
    expect('cause' in error).toBe(false);
  });

  it('is recognised through causes, aggregates and cycles', () => {
    const error = makeError();
    const wrapped = new Error('outer', { cause: new AggregateError([new Error('a'), error]) });
    expect(findResourcesExhausted(wrapped)).toBe(error);
    const cyclic = new Error('cyclic');
    cyclic.cause = cyclic;
    expect(isResourcesExhausted(cyclic)).toBe(false);
    expect(isResourcesExhausted(new Error(error.message))).toBe(false);
    for (const other of [undefined, null, 'x', 1, {}]) {
      expect(isResourcesExhausted(other)).toBe(false);
    }
  });

  it('is recognised after a structured clone, alone and as a cause', () => {
    expect(isResourcesExhausted(structuredClone(makeError()))).toBe(true);
    expect(isResourcesExhausted(structuredClone(new Error('x', { cause: makeError() })))).toBe(
      true,
    );
    expect(isResourcesExhausted(structuredClone(new Error(makeError().message)))).toBe(false);
  });

  it('is recognised after a trip to a Worker and back', async () => {
    const worker = new Worker(
      "require('node:worker_threads').parentPort.once('message', (e) => { throw new Error('wrapped', { cause: e }); })",
      { eval: true },
    );
    const failed = new Promise<unknown>((resolve) => worker.once('error', resolve));
    worker.postMessage(makeError());
    expect(isResourcesExhausted(await failed)).toBe(true);
  });
});
