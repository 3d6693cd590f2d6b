import type { ClaimedJob } from '../../../index.ts'
import type { JsonText } from '../../../json-text.ts'
import type { Grant } from '../access/access.ts'
import { json, route, type Tools } from '../route.ts'
import { claimed, claimRequest } from '../schemas/claim.ts'
import { parsed } from '../schemas/strict.ts'
import { toMs } from '../schemas/values.ts'

export const CLAIM = route({
  method: 'post',
  path: '/claim',
  scope: 'consume',
  name: 'claim',
  summary: 'Claims jobs that are due, or waits for some',
  description:
    'Each claim has a lease. Without an answer that says how it ended, a lease that is over counts as a failure. A client that goes away while it waits gets nothing, and uses nothing up.',
  body: [claimRequest],
  answers: [claimed],
  async answer({ request, grant, body, requireQueues }, tools) {
    const { queues, count, lease, wait } = parsed(claimRequest, body.value)
    await requireQueues(namesIn(queues))
    const { signal } = request
    const options = { queues, count, lease: toMs(lease), wait: toMs(wait), signal }
    const jobs = (await tools.consumer.claim(options)) as ClaimedJob[]
    if (wait > 0 && jobs.length > 0) await requireStill(grant, jobs, tools)
    // To a client that went away after the jobs were claimed nothing is said: others need not wait for the leases.
    const handed = signal.aborted ? [] : jobs
    if (signal.aborted) await giveBack(tools, jobs)
    return json(`{"jobs":[${handed.map(textOf).join(',')}]}`)
  },
})

function namesIn(queues: string | readonly string[] | Readonly<Record<string, number>>): string[] {
  if (typeof queues === 'string') return [queues]
  return Array.isArray(queues) ? [...queues] : Object.keys(queues)
}

/** @throws Problem for a token that was deleted while the claim waited: others get the jobs */
async function requireStill(grant: Grant, jobs: readonly ClaimedJob[], tools: Tools): Promise<void> {
  try {
    await grant.requireStill()
  } catch (error) {
    await giveBack(tools, jobs)
    throw error
  }
}

async function giveBack({ consumer, logger }: Tools, jobs: readonly ClaimedJob[]): Promise<void> {
  const given = await Promise.allSettled(jobs.map((job) => consumer.release(job)))
  const failed = given.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
  if (failed)
    logger.warn({ error: failed.reason }, 'jobs that nobody was handed wait for their leases to end')
}

/** The payloads go out as they are stored, so that their numbers have all digits. */
function textOf(job: ClaimedJob): string {
  const { queue, id, fence, tenant, performIn, retryCount, crashes, error, payloads, scores, headers } = job
  const head = JSON.stringify({
    queue,
    id,
    fence: String(fence),
    tenant,
    perform_in: performIn,
    retry_count: retryCount,
    crashes,
    error,
  })
  const all = payloads.map((payload, index) => {
    const rest = JSON.stringify({ score: scores[index], headers: headers[index] ?? null })
    return `{"payload":${(payload as JsonText).text},${rest.slice(1)}`
  })
  return `${head.slice(0, -1)},"payloads":[${all.join(',')}]}`
}
