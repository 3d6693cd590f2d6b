import type { FoundJob } from '../../index.ts'
import { json, type Reply } from '../call.ts'
import { deliveriesOf, hasExpired, shownJob } from './job.ts'
import { queueOf, type Request } from './request.ts'

export async function peek(request: Request): Promise<Reply> {
  const job = await request.jobs.head(queueOf(request))
  if (!job) return json(404, { error: 'the queue is empty' })
  return json(200, shown(request, job, deliveriesOf(job.retryCount) - 1))
}

/** Its tries aren't told: lmstfy says 0 always, since it doesn't keep them with the job. */
export async function peekJob(request: Request): Promise<Reply> {
  const [job] = await request.jobs.find(queueOf(request), request.id)
  if (!job || hasExpired(job.payloads.at(-1)?.headers ?? null, Date.now()))
    return json(404, { error: 'job not found' })
  return json(200, shown(request, job, Number.POSITIVE_INFINITY))
}

export async function size(request: Request): Promise<Reply> {
  return json(200, { ...named(request), size: await request.jobs.countReady(queueOf(request)) })
}

export async function deadSize(request: Request): Promise<Reply> {
  const { count } = await request.jobs.sizeOfMorgue(queueOf(request))
  return json(200, { ...named(request), size: count })
}

export async function deadHead(request: Request): Promise<Reply> {
  const { count, oldest } = await request.jobs.sizeOfMorgue(queueOf(request))
  return json(200, { ...named(request), deadletter_size: count, deadletter_head: oldest ?? '' })
}

function shown({ namespace, queue }: Request, { id, payloads, retryCount }: FoundJob, deliveries: number) {
  const last = payloads.at(-1)
  const job = { id, payload: last?.payload, headers: last?.headers ?? null, retryCount }
  return shownJob(namespace, queue, job, deliveries)
}

function named({ namespace, queue }: Request) {
  return { namespace, queue }
}
