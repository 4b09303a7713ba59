/** The watchdog over real memory: what it notices, when it tells, and when its thread ends. */
import { expect, test } from 'vitest';
import { Watchdog, type WatchdogReading } from '../../lib/counting';
import { runFixture } from '../support/child';

const MiB = 2 ** 20;
const run = <T>(scenario: string) => runFixture<T>('watchdog.cjs', [scenario]);

test('a crossing is noticed while the event loop is blocked, and told afterwards', async () => {
  const report = await run<{
    threshold: number;
    during: Omit<WatchdogReading, 'calls'> & { calls: number };
    noticedAfter: number;
    called: { usage: number; after: number };
    allocatedIn: number;
    fell: boolean;
    again: boolean;
  }>('blocked');
  const { threshold, during, called } = report;
  expect(during).toMatchObject({ crossings: 1, calls: 0 });
  expect(during.peakUsage).toBeGreaterThan(threshold + 60 * MiB);
  // 100 ms of it is what a busy machine may take.
  expect(report.noticedAfter).toBeGreaterThan(0);
  expect(report.noticedAfter).toBeLessThan(report.allocatedIn + 100);
  expect(called.usage).toBeGreaterThan(threshold);
  expect(called.after).toBeLessThan(1000);
  // It calls again for the next crossing, and only then.
  expect(report).toMatchObject({ fell: true, again: true });
});

test('peaks are kept once the memory is gone; RSS is sampled', async () => {
  const { before, after, rss } = await run<{
    before: WatchdogReading;
    after: WatchdogReading;
    rss: { total: number; anon: number };
  }>('peak');
  expect(after.peakLive - before.live).toBeGreaterThan(99 * MiB);
  expect(after.peakUsage).toBeGreaterThan(after.peakLive);
  expect(after.live - before.live).toBeLessThan(4 * MiB);
  expect(after.ticks).toBeGreaterThan(before.ticks + 100);
  expect(Math.abs(after.rss - rss.total)).toBeLessThan(0.2 * rss.total);
  expect(Math.abs(after.rssAnon - rss.anon)).toBeLessThan(0.2 * rss.total);
  expect(after.busyMs).toBeLessThan(0.1 * after.ticks);
});

test('close() ends its thread and its watches, and may be called again', async () => {
  const report = await run<Record<string, unknown> & { before: number; read: WatchdogReading }>(
    'close',
  );
  expect(report).toMatchObject({
    open: { threads: report.before + 1, running: true },
    gone: true,
    called: 0,
    running: false,
    watch: 'undefined',
  });
  expect(Object.values(report.read).every((value) => value === 0)).toBe(true);
});

test('several hold one thread, at the shortest tick, until the last lets go', async () => {
  const report = await run<Record<string, unknown> & { ticks: number }>('holders');
  expect(report).toMatchObject({ threads: 1, stillOn: true, gone: true, started: true });
  // The faster one came while the thread slept for the slower.
  expect(report.ticks).toBeGreaterThan(50);
});

test('32 watches at once; an ended one leaves its place', async () => {
  const { kinds } = await run<{ kinds: string[] }>('places');
  expect(kinds).toEqual([...Array(32).fill('function'), 'undefined', 'function']);
});

test("usage has a Worker's heap in it while it runs", async () => {
  const { before, after, ended } = await run<{
    before: WatchdogReading;
    after: WatchdogReading;
    ended: WatchdogReading;
  }>('worker');
  expect(after.usage - before.usage).toBeGreaterThan(70e6);
  expect(Math.abs(after.live - before.live)).toBeLessThan(5e6);
  expect(ended.usage).toBeLessThan(before.usage);
});

test('a Worker that ends without closing it holds it no longer', async () => {
  expect(await run('abandoned')).toMatchObject({ gone: true });
});

test('it does not keep the process alive', async () => {
  expect(await run('open')).toEqual({ running: true });
});

test.each([0, -1, 1.5, 10_001, Number.NaN, Number.POSITIVE_INFINITY, '10'])(
  'a tick of %j is refused',
  (tickMs) => {
    expect(() => new Watchdog({ tickMs: tickMs as number })).toThrow(
      expect.objectContaining({ code: 'ERR_OOM_GUARD_INVALID_ARGUMENT' }),
    );
  },
);
