import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/{unit,integration,system,soak}/**/*.test.ts'],
    // Addons and kernel limits are process-wide: each file gets a process of its own.
    pool: 'forks',
    testTimeout: 60_000,
  },
});
