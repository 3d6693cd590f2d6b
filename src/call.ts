import type { Batch, PerformContext } from './handler.ts'
import type { NewJob } from './job.ts'
import type { Queue } from './queue.ts'

/** The call that a client middleware wraps. */
export interface EnqueueCall<Payload = unknown> {
  readonly queue: Queue
  readonly jobs: readonly NewJob<Payload>[]
}

/** The call that a server middleware wraps. */
export interface PerformCall<Handed = unknown> {
  readonly queue: Queue
  readonly batch: Batch<Handed>
  readonly context: PerformContext
}

/** Whether a middleware's call is one of this queue. TypeScript then knows the type of its payloads. */
export function isFor<Payload, Handed>(
  queue: Queue<Payload, Handed>,
  call: EnqueueCall,
): call is EnqueueCall<Payload> & EnqueueCall
export function isFor<Payload, Handed>(
  queue: Queue<Payload, Handed>,
  call: PerformCall,
): call is PerformCall<Handed>
export function isFor({ name }: Pick<Queue, 'name'>, call: { readonly queue: Queue }): boolean {
  return call.queue.name === name
}
