/** Resident memory explained in five unlike programs. */
import { expect, test } from 'vitest';
import { type LedgerData, ledger, startCounting } from '../../lib/counting';
import { runFixture } from '../support/child';
import { describeWith, toolModule } from '../support/tools';

const MIB = 1024 * 1024;

async function run(program: string, counting = 'counted'): Promise<LedgerData> {
  const taken = await runFixture<LedgerData>('ledger-programs.cjs', [program, counting]);
  expect(sum(taken, () => true)).toBe(taken.rss);
  expect(taken.lines.every(({ bytes }) => Number.isInteger(bytes) && bytes >= 0)).toBe(true);
  return taken;
}

function sum(taken: LedgerData, which: (line: LedgerData['lines'][number]) => boolean): number {
  return taken.lines.filter(which).reduce((total, { bytes }) => total + bytes, 0);
}

const of =
  (category: string, name = '') =>
  (line: LedgerData['lines'][number]) =>
    line.category === category && line.name.includes(name);

function expectExplained(taken: LedgerData): void {
  expect(taken.reason).toBeUndefined();
  expect(taken.unexplained / taken.rss).toBeLessThanOrEqual(0.02);
}

test('a bare REPL', async () => {
  const taken = await run('bare');
  expectExplained(taken);
  expect(sum(taken, of('files', process.execPath))).toBeGreaterThan(10 * MIB);
  expect(sum(taken, of('stacks'))).toBeGreaterThan(0);
});

test('a JavaScript heap of 500 MB', async () => {
  const taken = await run('heap');
  expectExplained(taken);
  expect(sum(taken, of('v8'))).toBeGreaterThan(490e6);
});

test('sharp, idle after load', async () => {
  const taken = await run('sharp');
  expectExplained(taken);
  expect(sum(taken, of('slack', 'malloc'))).toBeGreaterThan(sum(taken, of('live', 'malloc')));
});

test('DuckDB after a drop', async () => {
  const taken = await run('duckdb');
  expectExplained(taken);
  expect(sum(taken, of('slack', 'duckdb_je_'))).toBeGreaterThan(50 * MIB);
  expect(sum(taken, of('live', 'duckdb_je_'))).toBeLessThan(10 * MIB);
});

describeWith('polars', toolModule('nodejs-polars'), () => {
  test('a frame', async () => {
    const taken = await run('polars');
    expectExplained(taken);
    expect(sum(taken, of('live', 'malloc'))).toBeGreaterThan(10 * MIB);
  });
});

test('without counting the lines still add up, with live and slack in one', async () => {
  const taken = await run('sharp', 'uncounted');
  expectExplained(taken);
  expect(sum(taken, of('live+slack'))).toBeGreaterThan(50 * MIB);
  expect(sum(taken, of('live')) + sum(taken, of('slack'))).toBe(0);
});

test('live memory that was never written to is told apart', () => {
  startCounting();
  const before = ledger();
  const untouched = Buffer.allocUnsafeSlow(64 * MIB);
  const after = ledger();
  expect(after.untouched - before.untouched).toBeGreaterThan(63 * MIB);
  expect(sum(after, of('live')) - sum(before, of('live'))).toBeLessThan(16 * MIB);
  expect(untouched.length).toBe(64 * MIB);
});
