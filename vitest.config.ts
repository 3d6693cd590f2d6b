import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/server.ts',
    setupFiles: 'test/support/warnings.ts',
    // Each file has a database of its own, but all share a server: more files at once only slow each other down.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
