import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inject } from 'vitest'

type Original = typeof import('../../src/worker/membership/start-thread.ts')

/**
 * Stands for `start-thread.ts` where the source imports it (see vitest.config.ts): the same, but as it is built. A thread from
 * source takes a third of a second of CPU to load tsx, and most tests start some.
 */
const built = join(inject('builtPackage'), 'dist/src/worker/membership/start-thread.js')
export const { startThread }: Original = await import(/* @vite-ignore */ pathToFileURL(built).href)
