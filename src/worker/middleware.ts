import type { PerformCall } from '../call.ts'
import { UnderWay } from '../promises.ts'

/**
 * Runs around `perform`. If it swallows the error, the batch succeeds; if it throws, the batch fails. It may call `next()`
 * again once the last call has ended. A call while the handler runs, or after the batch has ended, is refused. A batch ends
 * when its middleware has returned and its handler has ended, even if a middleware doesn't await `next()`.
 */
export type ServerMiddleware = (call: PerformCall, next: () => Promise<void>) => unknown

/** The first is outermost. */
export async function runMiddleware(
  chain: readonly ServerMiddleware[],
  call: PerformCall,
  perform: () => unknown,
): Promise<void> {
  const underWay = new UnderWay()
  let performing = false
  const from = async (index: number): Promise<void> => {
    const middleware = chain[index]
    if (middleware) return void (await middleware(call, () => underWay.offer(from(index + 1))))
    // The outcome may be stored by now, and other processes may have the ids.
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
  // Once this ends, other processes may claim the ids.
  await underWay.outlast(from(0))
}
