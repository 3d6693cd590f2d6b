import { resolve } from 'node:path'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: [{ find: /^\.\/start-thread\.ts$/, replacement: resolve('test/support/start-thread.ts') }],
  },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/server.ts', 'test/support/package.ts'],
    tags: [{ name: 'slow', description: 'waits or computes for seconds: for `npm run test:slow`' }],
    setupFiles: 'test/support/warnings.ts',
    // Each file has a database of its own, but all share a server: more files at once only slow each other down.
    pool: 'forks',
    // Files of one process share what they import: module mocks (`vi.mock`) don't work.
    isolate: false,
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
