import { beforeEach, describe, expect, it } from 'vitest';
import { isResourcesExhausted } from '../../lib/errors';
import { Admission, type AdmissionTicket } from '../../lib/guard/admission';
import type { AdmissionOptions } from '../../lib/guard/admission-options';
import { AdmissionRefusedError } from '../../lib/guard/admission-refused';
import { rejection } from './fakes';

let now: number;
let usage: number;
let limit: number | undefined;
let running: number;
let timers: Set<() => void>;

beforeEach(() => {
  now = 0;
  usage = 0;
  limit = 1000;
  running = 0;
  timers = new Set();
});

const make = (options?: AdmissionOptions) =>
  new Admission({
    usage: () => usage,
    limit: () => limit,
    running: () => running,
    clock: () => now,
    every: (_ms, fn) => {
      timers.add(fn);
      return () => void timers.delete(fn);
    },
    options,
  });

async function look(ms = 50): Promise<void> {
  now += ms;
  for (const fn of [...timers]) fn();
  await null;
  await null;
}

/** How it stands with a promise. */
async function state(promise: Promise<unknown>): Promise<string> {
  return Promise.race([
    promise.then(
      () => 'admitted',
      () => 'refused',
    ),
    new Promise<string>((resolve) => setImmediate(() => resolve('waits'))),
  ]);
}

describe('admission', () => {
  it('starts up to 70 %, waits up to 85 %, refuses over that', async () => {
    const admission = make();
    running = 1;
    usage = 500;
    const first = await admission.admit({ estimate: 200 });
    const second = admission.admit({ estimate: 150 });
    expect(await state(second)).toBe('waits');
    const refused = await rejection(admission.admit({ estimate: 151 }));
    expect(refused).toBeInstanceOf(AdmissionRefusedError);
    expect(refused).toMatchObject({
      code: 'ERR_OOM_GUARD_NOT_ADMITTED',
      reason: 'over',
      estimate: 151,
      usage: 500,
      limit: 1000,
    });
    expect(isResourcesExhausted(refused)).toBe(false);
    first.release();
    expect(await state(second)).toBe('admitted');
    expect(timers.size).toBe(0);
  });

  it('always admits one into an idle process, however large', async () => {
    const admission = make();
    usage = 990;
    const ticket = await admission.admit({ estimate: 5000 });
    expect(await rejection(admission.admit({ estimate: 1 }))).toMatchObject({ reason: 'over' });
    ticket.release();
    running = 1;
    expect(await rejection(admission.admit({ estimate: 1 }))).toMatchObject({ reason: 'over' });
  });

  it('admits in order of arrival: a small one does not pass a large one', async () => {
    const admission = make();
    running = 1;
    usage = 690;
    const order: string[] = [];
    const large = admission.admit({ estimate: 100 }).then(() => order.push('large'));
    const small = admission.admit({ estimate: 10 }).then(() => order.push('small'));
    await look();
    expect([order, admission.waiting]).toEqual([[], 2]);
    usage = 590;
    await look();
    await Promise.all([large, small]);
    expect(order).toEqual(['large', 'small']);
    expect(timers.size).toBe(0);
  });

  it('a full queue refuses', async () => {
    const admission = make({ maxQueue: 1 });
    running = 1;
    usage = 750;
    const waits = admission.admit({ estimate: 10 });
    expect(await rejection(admission.admit({ estimate: 10 }))).toMatchObject({
      reason: 'queue-full',
    });
    usage = 0;
    await look();
    await waits;
  });

  it('waits no longer than its deadline, or its signal', async () => {
    const admission = make({ deadlineMs: 100 });
    running = 1;
    usage = 750;
    const late = rejection(admission.admit({ estimate: 10 }));
    const controller = new AbortController();
    const aborted = rejection(admission.admit({ estimate: 10, signal: controller.signal }));
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await aborted).toBe(reason);
    await look();
    await look();
    expect(await late).toMatchObject({ reason: 'deadline' });
    expect([admission.waiting, timers.size]).toEqual([0, 0]);
    expect(await rejection(admission.admit({ estimate: 10, deadlineMs: 0 }))).toMatchObject({
      reason: 'deadline',
    });
    expect(
      await rejection(admission.admit({ estimate: 10, signal: AbortSignal.abort(reason) })),
    ).toBe(reason);
  });

  it('hints when to come again, by how long the last ones took', async () => {
    const admission = make();
    running = 1;
    const hint = async () =>
      ((await rejection(admission.admit({ estimate: 900 }))) as AdmissionRefusedError).retryAfterMs;
    expect(await hint()).toBe(1000);
    const tickets: AdmissionTicket[] = [];
    for (let i = 0; i < 2; i++) tickets.push(await admission.admit({ estimate: 10 }));
    now += 400;
    tickets[0]?.release();
    expect(await hint()).toBe(400);
    now += 100_000;
    tickets[1]?.release();
    expect(await hint()).toBe(30_000);
  });

  it('a ticket is released once', async () => {
    const admission = make();
    const ticket = await admission.admit({ estimate: '100B' });
    expect([ticket.estimate, admission.admitted]).toEqual([100, 1]);
    ticket.release();
    ticket.release();
    ticket[Symbol.dispose]();
    expect([ticket.released, admission.admitted]).toEqual([true, 0]);
  });

  it('without a limit everything is admitted', async () => {
    limit = undefined;
    running = 5;
    usage = 1e15;
    await make().admit({ estimate: 1e12 });
  });

  it('closed, refuses those who wait and those who come', async () => {
    const admission = make();
    running = 1;
    usage = 750;
    const waits = rejection(admission.admit({ estimate: 10 }));
    admission.close();
    admission.close();
    expect(await waits).toMatchObject({ code: 'ERR_OOM_GUARD_CLOSED' });
    expect(await rejection(admission.admit({ estimate: 10 }))).toMatchObject({
      code: 'ERR_OOM_GUARD_CLOSED',
    });
    expect(timers.size).toBe(0);
  });

  it.each([
    [undefined],
    [{}],
    [{ estimate: 'much' }],
    [{ estimate: -1 }],
    [{ estimate: 1, deadlineMs: -1 }],
    [{ estimate: 1, signal: 5 }],
  ])('refuses %o', async (request) => {
    expect(await rejection(make().admit(request as never))).toMatchObject({
      code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_(ARGUMENT|SIZE)$/),
    });
  });

  it.each<[AdmissionOptions]>([
    [{ startBelow: 0 }],
    [{ startBelow: 0.9, waitBelow: 0.8 }],
    [{ waitBelow: 1.5 }],
    [{ maxQueue: 1.5 }],
    [{ deadlineMs: Number.NaN }],
  ])('refuses the options %o', (options) => {
    expect(() => make(options)).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
    );
  });
});
