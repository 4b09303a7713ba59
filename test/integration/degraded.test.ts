/** Where the addon cannot be loaded: it says why, what needs no addon works, guards refuse. */
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Coverage, MemoryData } from '../../lib/counting';
import { projectWithoutAddon } from '../support/package';
import { runNode } from '../support/run-node';
import { root } from '../support/tools';

interface Attempt {
  code?: string;
  message?: string;
  mode?: string;
  limit?: number;
}

interface Report {
  coverage: Coverage;
  live: number;
  table: string;
  data: MemoryData;
  enforced: Attempt;
  byDefault: Attempt;
  accepted: Attempt;
  observed: Attempt;
  granted: boolean[];
}

const fixture = path.join(root, 'test', 'fixtures', 'degraded.cjs');
const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission';

describe.each([
  ['with --no-addons', ['--no-addons'], root, /disabled/],
  [
    'under the permission model',
    [permission, '--allow-fs-read=*', '--no-warnings'],
    root,
    /disabled/,
  ],
  [
    'where none was built',
    [],
    path.join(projectWithoutAddon(), 'node_modules', 'oom-guard'),
    /No native build/,
  ],
])('%s', (_, args, directory, reason) => {
  let report: Report;

  beforeAll(async () => {
    const { code, stdout, stderr } = await runNode([...args, fixture, directory]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    report = JSON.parse(stdout);
  });

  test('startCounting() says that nothing is counted, and why', () => {
    expect(report.coverage).toMatchObject({ available: false, allocators: [], images: [] });
    expect(report.coverage.reason).toMatch(reason);
    expect(report.coverage.notCovered[0]).toEqual({
      what: 'native memory',
      reason: report.coverage.reason,
    });
    expect(report.live).toBe(0);
  });

  test("memory() prints, with V8's and the kernel's numbers in it", () => {
    expect(report.table).toMatch(/│ live +│ +│ 0 B +│/);
    expect(report.table).toMatch(/native memory: the addon could not be loaded/);
    for (const line of report.table.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const { rss, heap, usage, counting } = report.data;
    expect(counting).toBe(false);
    expect(rss.total).toBeGreaterThan(20e6);
    expect(rss.anon).toBeLessThan(rss.total);
    expect(heap.used).toBeGreaterThan(1e6);
    expect(heap.limit).toBeGreaterThan(heap.used);
    expect(usage).toBeGreaterThan(1e6);
  });

  test('a guard that enforces refuses to start unless told to accept it', () => {
    for (const refused of [report.enforced, report.byDefault]) {
      expect(refused.code).toBe('ERR_OOM_GUARD_UNAVAILABLE');
      expect(refused.message).toMatch(reason);
      expect(refused.message).toContain('allowDegraded: true');
    }
    expect(report.accepted).toEqual({ mode: 'enforce', limit: 2 ** 30 });
    expect(report.observed).toEqual({ mode: 'observe', limit: 2 ** 30 });
  });

  test('the one that accepts it grants and refuses', () => {
    expect(report.granted).toEqual([true, false]);
  });
});
