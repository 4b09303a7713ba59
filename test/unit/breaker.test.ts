import { describe, expect, it } from 'vitest';
import { MemoryBreaker } from '../../lib/breaker';

type Check = [atMs: number, usage: number, tripped: boolean];

const OVER = 101;
const AT = 100;

describe('MemoryBreaker', () => {
  const table: [name: string, checks: Check[]][] = [
    [
      'two over',
      [
        [0, OVER, false],
        [200, OVER, false],
      ],
    ],
    [
      'equal is not over',
      [
        [0, AT, false],
        [60, AT, false],
        [120, AT, false],
      ],
    ],
    [
      'one under starts over',
      [
        [0, OVER, false],
        [60, OVER, false],
        [90, AT, false],
        [120, OVER, false],
        [180, OVER, false],
        [219, OVER, false],
        [220, OVER, true],
      ],
    ],
    [
      'three over inside 100 ms',
      [
        [0, OVER, false],
        [50, OVER, false],
        [99, OVER, false],
      ],
    ],
    [
      'three over across 100 ms',
      [
        [0, OVER, false],
        [50, OVER, false],
        [100, OVER, true],
      ],
    ],
    [
      'many over before 100 ms, then one at 100 ms',
      [
        [0, OVER, false],
        [1, OVER, false],
        [2, OVER, false],
        [3, OVER, false],
        [100, OVER, true],
      ],
    ],
    [
      'staying over',
      [
        [0, OVER, false],
        [50, OVER, false],
        [100, OVER, true],
        [101, OVER, true],
        [5000, OVER, true],
      ],
    ],
    [
      'recovering, and tripping again only from the start',
      [
        [0, OVER, false],
        [50, OVER, false],
        [100, OVER, true],
        [110, AT, true],
        [115, 90, true],
        [118, 89, false],
        [120, OVER, false],
        [130, OVER, false],
        [300, OVER, true],
      ],
    ],
    [
      'a streak that is stale',
      [
        [0, OVER, false],
        [50, OVER, false],
        [3_600_000, OVER, false],
        [3_600_050, OVER, false],
        [3_600_100, OVER, true],
      ],
    ],
    [
      'checks just as far apart as they may be',
      [
        [0, OVER, false],
        [2000, OVER, false],
        [4000, OVER, true],
      ],
    ],
    [
      'a negative raw sum',
      [
        [0, -1, false],
        [100, -1, false],
        [200, -1, false],
      ],
    ],
  ];

  it.each(table)('%s', (_name, checks) => {
    let now = 0;
    let usage = 0;
    const breaker = new MemoryBreaker({ limit: 100, usage: () => usage, clock: () => now });
    for (const [at, reading, tripped] of checks) {
      now = at;
      usage = reading;
      expect([at, breaker.check()]).toEqual([at, tripped]);
      expect(breaker.tripped).toBe(tripped);
    }
  });

  it('starts over when it is rearmed', () => {
    let now = 0;
    const breaker = new MemoryBreaker({ limit: 100, usage: () => OVER, clock: () => now });
    const checks = [0, 50, 100, 150, 200, 250].map((at) => {
      now = at;
      const tripped = breaker.check();
      if (at === 100) {
        breaker.rearm();
      }
      return tripped;
    });
    expect(checks).toEqual([false, false, true, false, false, true]);
  });

  it('can be told how many checks and how long', () => {
    let now = 0;
    const breaker = new MemoryBreaker({
      limit: 100,
      usage: () => OVER,
      checks: 1,
      holdMs: 0,
      clock: () => now,
    });
    expect(breaker.check()).toBe(true);
    now = 1;
    expect(breaker.check()).toBe(true);
  });

  it.each([
    [{ limit: 0 }],
    [{ limit: 'much' }],
    [{ checks: 0 }],
    [{ checks: 1.5 }],
    [{ maxGapMs: 0 }],
    [{ lowWater: 1.1 }],
    [{ lowWater: 0 }],
    [{ checks: '3' }],
    [{ holdMs: -1 }],
    [{ holdMs: Number.NaN }],
    [{ holdMs: Number.POSITIVE_INFINITY }],
  ])('refuses %o', (bad) => {
    expect(() => new MemoryBreaker({ limit: 100, usage: () => 0, ...(bad as object) })).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_OOM_GUARD_INVALID_/) }),
    );
  });
});
