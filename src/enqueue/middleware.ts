import type { NewJob } from '../job.ts'
import type { Queue } from '../queue.ts'

/** What a client middleware is wrapped around. */
export interface EnqueueCall {
  readonly queue: Queue
  readonly jobs: readonly NewJob[]
}

/** Runs around `enqueue`: it hands to `next` the jobs to store, changed or fewer, or doesn't call it at all. */
export type ClientMiddleware = (
  call: EnqueueCall,
  next: (jobs: readonly NewJob[]) => Promise<void>,
) => unknown

/** The first is outermost. */
export function runMiddleware(
  chain: readonly ClientMiddleware[],
  queue: Queue,
  jobs: readonly NewJob[],
  store: (jobs: readonly NewJob[]) => Promise<void>,
): Promise<void> {
  const from = async (index: number, current: readonly NewJob[]): Promise<void> => {
    const middleware = chain[index]
    if (middleware) await middleware({ queue, jobs: current }, (changed) => from(index + 1, changed))
    else await store(current)
  }
  return from(0, jobs)
}
