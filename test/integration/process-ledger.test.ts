/** The ledger in the addon against the one in JavaScript: the same answers to the same requests. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startCounting } from '../../lib/counting';
import { LocalLedger, ProcessLedger, type UsageLedger } from '../../lib/pool';
import type { LedgerLimits } from '../../lib/pool/usage-ledger';

const FAR = 1e15;
/** So that nothing ages while a sequence runs. */
const PENDING_MS = 1e9;

type Call = (ledger: UsageLedger, limits: LedgerLimits, booked: Booked[]) => unknown;
interface Booked {
  bytes: number;
  needed: number;
  canSpill: boolean;
  step: number;
}

const size = fc.nat(500);
const request = fc.record({ bytes: size, part: fc.nat(10), canSpill: fc.boolean() });
const calls: fc.Arbitrary<Call> = fc.oneof(
  request.map(
    ({ bytes, part, canSpill }): Call =>
      (ledger, limits, booked) => {
        const needed = Math.floor((bytes * part) / 10);
        const verdict = ledger.book(bytes, needed, canSpill, limits);
        if (verdict === 'granted') {
          booked.push({ bytes, needed, canSpill, step: ledger.step });
        }
        return verdict;
      },
  ),
  request.map(
    ({ bytes, part, canSpill }): Call =>
      (ledger, _limits, booked) => {
        const needed = Math.floor((bytes * part) / 10);
        ledger.bookUnchecked(bytes, needed, canSpill);
        booked.push({ bytes, needed, canSpill, step: ledger.step });
      },
  ),
  fc.boolean().map(
    (allocated): Call =>
      (ledger, _limits, booked) => {
        const last = booked.pop();
        if (last !== undefined) {
          ledger.giveBack(last.bytes, last.canSpill);
          ledger.retire(last.step, last.needed, allocated);
        }
      },
  ),
  fc.tuple(size, size, size).map(([reserved, unspillableReserve, room]): Call => {
    return (ledger, limits) => {
      ledger.tick();
      Object.assign(limits, {
        reserved: 4 * reserved,
        // Usage is what it is: a reserve takes all of the limit or nothing.
        unspillableReserve: unspillableReserve % 3 === 0 ? 2 * FAR : 0,
        room: 4 * room,
        roomExisting: ledger.existing,
        roomUntil: room % 5 === 0 ? -1 : Number.POSITIVE_INFINITY,
      });
    };
  }),
);

test('gives the same answers', () => {
  startCounting();
  const shared = ProcessLedger.open({ key: 'a test', pendingMs: PENDING_MS });
  if (shared === undefined) {
    throw new Error('the addon is not built');
  }
  expect(ProcessLedger.open({ key: 'a test', pendingMs: PENDING_MS })).toBe(shared);
  fc.assert(
    fc.property(fc.array(calls, { maxLength: 60 }), (sequence) => {
      const local = new LocalLedger({
        readings: { usage: () => 1, heap: () => ({ used: 0, limit: 0 }) },
        clock: () => 0,
        pendingMs: PENDING_MS,
      });
      const runs = [local, shared].map((ledger) => {
        const booked: Booked[] = [];
        const start = ledger.existing;
        const limits: LedgerLimits = {
          usage: FAR,
          reserved: FAR,
          unspillableReserve: 0,
          room: Number.POSITIVE_INFINITY,
          roomExisting: start,
          roomUntil: Number.POSITIVE_INFINITY,
        };
        const answers = sequence.map((call) => [
          call(ledger, limits, booked),
          ledger.pending,
          ledger.reserved,
          ledger.unspillable,
          ledger.existing - start,
        ]);
        for (const { bytes, needed, canSpill, step } of booked) {
          ledger.giveBack(bytes, canSpill);
          ledger.retire(step, needed, false);
        }
        return [answers, ledger.pending, ledger.reserved, ledger.unspillable];
      });
      expect(runs[1]).toEqual(runs[0]);
      expect(runs[1]?.slice(1)).toEqual([0, 0, 0]);
    }),
    { numRuns: 300 },
  );
});

test('knows this process: its heap, its usage and the time', () => {
  startCounting();
  const ledger = ProcessLedger.open({ key: 'a test', pendingMs: PENDING_MS }) as ProcessLedger;
  const before = ledger.now;
  ledger.refresh();
  ledger.tick();
  expect(ledger.now).toBeGreaterThanOrEqual(before);
  expect(ledger.heap().used).toBeGreaterThan(1e6);
  expect(ledger.heap().limit).toBeGreaterThan(ledger.heap().used);
  expect(ledger.peakUsage).toBeGreaterThan(ledger.heap().used / 2);
});

test.each([[0], [-1], [Number.NaN], ['1']])('refuses an age of %s', (pendingMs) => {
  startCounting();
  expect(() => ProcessLedger.open({ key: 'bad', pendingMs: pendingMs as number })).toThrow(
    expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
  );
});
