import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/{unit,integration,system,soak}/**/*.test.ts'],
    // Addons and kernel limits are process-wide: each file gets a process of its own.
    pool: 'forks',
    // Kernel limits, deadlines and ratios of times are tested: one file at a time.
    fileParallelism: false,
    testTimeout: 60_000,
  },
});
