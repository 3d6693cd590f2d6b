import type { NewJob } from '../../job.ts'
import { json, type Reply } from '../call.ts'
import { attributesOf } from './attributes.ts'
import { elementsOf } from './elements.ts'
import { newJobs } from './job.ts'
import { type Publishing, publishingOf } from './parameters.ts'
import { queueOf, type Request } from './request.ts'

/** Bytes. */
const LARGEST_BODY = 1024 * 1024
const MOST_IN_BULK = 64
/** With as much again between the jobs as JSON could want. */
const LARGEST_BULK = MOST_IN_BULK * (LARGEST_BODY + 1024)

export function publish(request: Request): Promise<Reply> {
  return publishOnce(request, async () => {})
}

/** `until`: it is stored when this is done. */
async function publishOnce(request: Request, until: () => Promise<unknown>): Promise<Reply> {
  const { call, defaults } = request
  const publishing = publishingOf(call.query, defaults)
  const attributes = attributesOf(call)
  const body = await request.body(LARGEST_BODY)
  if (!body) return json(413, { error: 'body too large' })
  const jobs = newJobs([body], publishing, attributes)
  await until()
  await store(request, jobs, publishing)
  return json(201, { msg: 'published', job_id: jobs[0]!.id })
}

export async function publishBulk(request: Request): Promise<Reply> {
  const { call, defaults } = request
  const publishing = publishingOf(call.query, defaults)
  const attributes = attributesOf(call)
  const body = await request.body(LARGEST_BULK)
  if (!body) return json(413, { error: 'body too large' })
  const bodies = elementsOf(body)
  if (!bodies) return json(400, { error: 'request body should be an array of objects' })
  if (bodies.length === 0) return json(400, { error: 'no jobs' })
  if (bodies.length > MOST_IN_BULK) return json(400, { error: 'too many jobs' })
  if (bodies.some(({ length }) => length > LARGEST_BODY)) return json(413, { error: 'job too large' })
  const jobs = newJobs(bodies, publishing, attributes)
  await store(request, jobs, publishing)
  return json(201, { msg: 'published', job_ids: jobs.map(({ id }) => id) })
}

/**
 * The old job goes once the new one is stored: if something fails in between there are both, never none. So it is stored when nobody
 * holds the old one: clients repeat what is refused, and each time there would be one more.
 */
export async function republish(request: Request): Promise<Reply> {
  const { call, id, jobs } = request
  const queue = queueOf(request)
  const reply = await publishOnce(request, () => jobs.waitForPushes(queue, id, call.signal))
  if (reply.status === 201) await jobs.end(queue, id, call)
  return reply
}

async function store(
  request: Request,
  jobs: readonly NewJob<string>[],
  { delay }: Publishing,
): Promise<void> {
  await request.jobs.publish(queueOf(request), jobs)
  request.metrics.published(request, jobs.length, delay > 0)
}
