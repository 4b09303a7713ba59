/** Requiring the package changes nothing; starting it changes what it says, silently. */
import { beforeAll, expect, test } from 'vitest';
import { runNode } from '../support/run-node';
import { describeWith, root } from '../support/tools';

interface Look {
  threads: string[];
  timers: number;
  resources: string[];
  dlopenWrapped: boolean;
  /** Address of each of the executable's import slots for malloc and its siblings: what it holds. */
  slots: Record<string, string>;
}

interface Report {
  before: Look;
  required: Look;
  asked: { allocators: unknown[]; images: unknown[]; live: number; counting: boolean };
  afterAsking: Look;
  started: Look;
  startedTwice: Look;
  at: number;
}

const procfs = {
  name: '/proc',
  available: process.platform === 'linux',
  why: 'threads and import slots are read from it',
};

describeWith('in a process of its own', procfs, () => {
  let report: Report;
  let endedAt: number;

  beforeAll(async () => {
    const { code, stdout, stderr, at } = await runNode(['test/fixtures/require-only.cjs'], {
      cwd: root,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    report = JSON.parse(stdout);
    endedAt = at;
  });

  test('requiring patches nothing, starts no thread and no timer', () => {
    expect(Object.keys(report.before.slots)).not.toHaveLength(0);
    expect(report.required).toEqual(report.before);
    expect(report.before.timers).toBe(0);
  });

  test('asking without starting loads the addon and changes nothing either', () => {
    expect(report.asked).toEqual({ allocators: [], images: [], live: 0, counting: false });
    expect(report.afterAsking).toEqual(report.before);
  });

  test('starting patches, starts one thread and one timer', () => {
    const { before, started } = report;
    expect(started.threads).toHaveLength(before.threads.length + 1);
    expect(started.timers).toBe(1);
    expect(started.dlopenWrapped).toBe(true);
    const changed = Object.keys(before.slots).filter(
      (slot) => started.slots[slot] !== before.slots[slot],
    );
    expect(changed.length).toBeGreaterThanOrEqual(4);
  });

  test('starting again changes nothing more', () => {
    expect(report.startedTwice).toEqual(report.started);
  });

  test('what it started does not keep the process alive', () => {
    expect(report.started.resources).toEqual(report.before.resources);
    expect(endedAt - report.at).toBeLessThan(2000);
  });
});
