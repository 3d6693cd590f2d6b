import type { Batch, PerformContext, Queue } from '../queue.ts'

/** What a server middleware is wrapped around. */
export interface PerformCall {
  readonly queue: Queue
  readonly batch: Batch<unknown>
  readonly context: PerformContext
}

/**
 * Runs around `perform`. One that doesn't pass the error on makes the batch a success, one that throws makes it a
 * failure.
 */
export type ServerMiddleware = (call: PerformCall, next: () => Promise<void>) => unknown

/** The first is outermost. */
export function runMiddleware(
  chain: readonly ServerMiddleware[],
  call: PerformCall,
  perform: () => unknown,
): Promise<void> {
  const from = async (index: number): Promise<void> => {
    const middleware = chain[index]
    await (middleware ? middleware(call, () => from(index + 1)) : perform())
  }
  return from(0)
}
