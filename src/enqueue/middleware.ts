import { type EnqueueCall, isFor } from '../call.ts'
import { LockstepError, OptionError } from '../errors.ts'
import type { NewJob } from '../job.ts'
import { show } from '../options.ts'
import { UnderWay } from '../promises.ts'
import type { Queue } from '../queue.ts'

/**
 * Runs around `enqueue`. It passes the jobs to store to `next`, changed or fewer, or does not call it. Without a `tx`, each
 * call of `next` is stored separately: its jobs stay even if another call, or the middleware, throws afterwards. `enqueue`
 * ends when all calls have ended, awaited or not, and fails if an unawaited call failed. Later calls are refused.
 *
 * `Payload` is unknown for all queues; one for a single queue goes through `clientMiddlewareFor`.
 */
export type ClientMiddleware<Payload = unknown> = (
  call: EnqueueCall<Payload>,
  next: (jobs: readonly NewJob<Payload>[]) => Promise<void>,
) => unknown

/**
 * A middleware for the calls of one queue. TypeScript knows the payloads that it gets, and checks those that it passes to
 * `next`. Calls of other queues go past it.
 */
export function clientMiddlewareFor<Payload, Handed>(
  queue: Queue<Payload, Handed>,
  middleware: ClientMiddleware<NoInfer<Payload>>,
): ClientMiddleware {
  return (call, next) =>
    isFor(queue, call) ? middleware(call, next as Parameters<ClientMiddleware<Payload>>[1]) : next(call.jobs)
}

const LATE = 'a middleware called next() after its enqueue had ended: return or await the promise of next()'

/** The first is outermost. */
export async function runMiddleware(
  chain: readonly ClientMiddleware[],
  queue: Queue,
  jobs: readonly NewJob[],
  store: (jobs: readonly NewJob[]) => Promise<void>,
): Promise<void> {
  if (chain.length === 0) return store(jobs)
  const underWay = new UnderWay()
  const from = async (index: number, current: readonly NewJob[]): Promise<void> => {
    if (underWay.over) throw new LockstepError('LOCKSTEP_CLOSED', LATE)
    if (!Array.isArray(current))
      throw new OptionError(`a middleware must give next() a list of jobs, not ${show(current)}`)
    const middleware = chain[index]
    if (!middleware) return store(current)
    await middleware({ queue, jobs: current }, (changed) => underWay.offer(from(index + 1, changed)))
  }
  await underWay.outlast(from(0, jobs))
}
