/**
 * After one spike of image work a gate on RSS refuses for as long as the allocator keeps what was freed;
 * ours does not. OOM_GUARD_SECONDS=60 for the minute that the figures in the documentation rest on.
 */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, toolModule } from '../support/tools';

interface Report {
  asked: number;
  refused: { theirs: number; ours: number };
  limit: number;
  rss: { after: number; atTheEnd: number };
  usage: number;
}

const seconds = process.env.OOM_GUARD_SECONDS ?? '5';

describeWith('beside @fastify/under-pressure', toolModule('@fastify/under-pressure'), () => {
  test('idle after a spike, ours refuses nothing', async () => {
    const report = await runFixture<Report>('under-pressure.cjs', [seconds], {
      env: { UV_THREADPOOL_SIZE: '8', MALLOC_ARENA_MAX: '' },
    });
    expect(report.asked).toBeGreaterThan(10 * Number(seconds));
    expect(report.rss.after).toBeGreaterThan(report.limit);
    expect(report.usage).toBeLessThan(report.limit / 2);
    expect(report.refused.theirs).toBe(report.asked);
    expect(report.refused.ours).toBe(0);
  });
});
