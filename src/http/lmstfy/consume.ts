import type { ClaimedJob } from '../../index.ts'
import { json, type Reply } from '../call.ts'
import { deliveriesOf, type ShownJob, shownJob } from './job.ts'
import { fullNameOf, isPossible } from './names.ts'
import { consumingOf } from './parameters.ts'
import { INVALID_TOKEN, queueOf, type Request } from './request.ts'

const NONE = json(404, { msg: 'no job available' })

export async function consume(request: Request): Promise<Reply> {
  const { call, namespace, queue, jobs, defaults, metrics } = request
  const { ttr, timeout, count } = consumingOf(call.query, defaults)
  const names = queue.split(',').filter((name) => name !== '')
  if (names.length === 0) return json(400, { error: 'invalid queue name(s)' })
  const queues = names
    .filter((name) => isPossible(namespace, name))
    .map((name) => fullNameOf(namespace, name))
  if (queues.length === 0) return NONE
  const wanted = { queues, count, lease: ttr * 1000, wait: timeout * 1000, signal: call.signal }
  const claimed = await jobs.consume(wanted)
  if (claimed.length === 0) return NONE
  const isAllowed = timeout === 0 || (await isStillAllowed(request, claimed))
  if (call.signal.aborted || !isAllowed) {
    await jobs.release(claimed)
    return isAllowed ? NONE : INVALID_TOKEN
  }
  for (const job of claimed) {
    jobs.handed(job, call)
    metrics.consumed(request, job)
  }
  const shown = claimed.map((job) => ({ msg: 'new job', ...consumedJob(namespace, job) }))
  return json(200, count === 1 ? shown[0] : shown)
}

/** What is known of a token counts for a moment, so this costs nothing where tokens are in use all the time. */
async function isStillAllowed(
  { isAllowed, jobs }: Request,
  claimed: readonly ClaimedJob[],
): Promise<boolean> {
  try {
    return await isAllowed()
  } catch (error) {
    await jobs.release(claimed)
    throw error
  }
}

/** 204 whatever there is: unknown jobs, and those of others, stay as they are. */
export async function acknowledge(request: Request): Promise<Reply> {
  const { call, id, jobs, metrics } = request
  if ((await jobs.end(queueOf(request), id, call)) === 'claim') metrics.acknowledged(request)
  return { status: 204 }
}

function consumedJob(namespace: string, { queue, id, payloads, headers, retryCount }: ClaimedJob): ShownJob {
  const name = queue.slice(namespace.length + 1)
  const job = { id, payload: payloads.at(-1), headers: headers.at(-1) ?? null, retryCount }
  return shownJob(namespace, name, job, deliveriesOf(retryCount))
}
