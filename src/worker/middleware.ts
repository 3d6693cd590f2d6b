import { UnderWay } from '../promises.ts'
import type { Batch, PerformContext, Queue } from '../queue.ts'

/** What a server middleware is wrapped around. */
export interface PerformCall {
  readonly queue: Queue
  readonly batch: Batch<unknown>
  readonly context: PerformContext
}

/**
 * Runs around `perform`. One that doesn't pass the error on makes the batch a success, one that throws makes it a
 * failure. `next()` may be called again once it has ended; while the handler runs, or after the batch has ended, that is
 * refused. A batch ends when its middleware has returned and its handler has ended, even where a middleware doesn't await it.
 */
export type ServerMiddleware = (call: PerformCall, next: () => Promise<void>) => unknown

/** The first is outermost. */
export async function runMiddleware(
  chain: readonly ServerMiddleware[],
  call: PerformCall,
  perform: () => unknown,
): Promise<void> {
  if (chain.length === 0) return void (await perform())
  const underWay = new UnderWay()
  let performing = false
  const from = async (index: number): Promise<void> => {
    const middleware = chain[index]
    if (middleware) return void (await middleware(call, () => underWay.offer(from(index + 1))))
    // What the batch had is stored by then, and others may have its ids.
    if (underWay.over)
      throw new Error('a middleware called next() after its batch had ended: return or await what it gives')
    if (performing) throw new Error('a middleware called next() again while the handler was running')
    performing = true
    try {
      await perform()
    } finally {
      performing = false
    }
  }
  // Others may be given the ids as soon as this ends.
  await underWay.outlast(from(0))
}
