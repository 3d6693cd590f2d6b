import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Worker as Thread } from 'node:worker_threads'
import { inject } from 'vitest'

type Original = typeof import('../../src/worker/membership/start-thread.ts')

/**
 * Stands for `start-thread.ts` where the source imports it (see vitest.config.ts): the same, but as it is built. A thread from
 * source takes a third of a second of CPU to load tsx, and most tests start some.
 */
const built = join(inject('builtPackage'), 'dist/src/worker/membership/start-thread.js')
const original: Original = await import(/* @vite-ignore */ pathToFileURL(built).href)

/** The newest one last. */
export const threads: Thread[] = []

export function startThread(...what: Parameters<Original['startThread']>): Thread {
  const thread = original.startThread(...what)
  threads.push(thread)
  return thread
}
