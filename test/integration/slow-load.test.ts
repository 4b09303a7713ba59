/** Nobody waits for the constructors of a library that another thread loads. */
import { expect, test } from 'vitest';
import { runFixture } from '../support/child';
import { describeWith, nativeTestFile } from '../support/tools';

interface Report {
  /** ms */
  longest: Record<'memory' | 'coverage' | 'audit' | 'ledger', number>;
  meanwhile: boolean;
  found: boolean;
}

describeWith(
  'while a Worker is inside a slow load',
  nativeTestFile('libslow_constructor.so'),
  () => {
    test('memory(), coverage(), audit() and ledger() answer', async () => {
      const { longest, meanwhile, found } = await runFixture<Report>('slow-load.cjs');
      expect(meanwhile).toBe(true);
      expect(Object.keys(longest)).toHaveLength(4);
      for (const [name, ms] of Object.entries(longest)) expect(ms, name).toBeLessThan(500);
      expect(found).toBe(true);
    });
  },
);
