import type { z } from 'zod'
import { LockstepError } from '../../../index.ts'
import { Problem } from '../../../serving/problem.ts'
import { given } from '../../../serving/values.ts'
import { firstLiving } from '../../living.ts'
import { mayUse } from '../access/access.ts'
import { deadFilterOf, jobFilterOf } from '../filters.ts'
import { json, type Route, route, type Tools } from '../route.ts'
import {
  allStats,
  deadQuery,
  findQuery,
  foundDead,
  foundJobs,
  jobQuery,
  noQuery,
  oneJob,
  oneStats,
  peeked,
  peekQuery,
} from '../schemas/look.ts'
import { deadText, hasExpired, jobText, statsOf } from '../shown.ts'

const QUEUE = '/queues/{queue}'
const listed = (name: string, texts: readonly string[], next: string | undefined) =>
  json(`{"${name}":[${texts.join(',')}],"next":${JSON.stringify(next ?? null)}}`)

const peek = route({
  method: 'get',
  path: `${QUEUE}/peek`,
  scope: 'consume',
  name: 'peek',
  summary: 'The jobs that are due, in their order, without claiming them',
  description:
    'By the clock of this server. A claim may give others: limits, lanes and pauses are not looked at.',
  query: peekQuery,
  answers: [peeked],
  async answer({ queue, query: { count, payloads, length } }, { insight }) {
    const now = new Date()
    const filter = { state: 'waiting', performIn: { to: now }, limit: count } as const
    // Without a payload there would be nothing to tell by whether it has expired.
    const extent = { payloads: Math.max(payloads, 1), length, attempts: false }
    const jobs = await firstLiving(
      count,
      (after) => insight.jobs(queue, given({ ...filter, after }), extent),
      (job) => hasExpired(job, now),
    )
    const shown = jobs.map(({ payloads: { count, first }, ...job }) =>
      jobText({ ...job, payloads: { count, first: first.slice(0, payloads) } }),
    )
    return json(`{"jobs":[${shown.join(',')}]}`)
  },
})

const find = route({
  method: 'get',
  path: `${QUEUE}/jobs`,
  scope: 'admin',
  name: 'findJobs',
  summary: 'A page of jobs that wait or are in work',
  query: findQuery as z.ZodType<z.output<typeof findQuery>>,
  answers: [foundJobs],
  async answer({ queue, query }, { insight }) {
    const { payloads, length } = query
    const found = await insight.jobs(queue, jobFilterOf(query), { payloads, length, attempts: false })
    return listed('jobs', found.items.map(jobText), found.next)
  },
})

const one = route({
  method: 'get',
  path: `${QUEUE}/jobs/{id}`,
  scope: 'admin',
  name: 'getJob',
  summary: 'A job that waits or is in work',
  query: jobQuery,
  answers: [oneJob],
  async answer({ queue, id, query: { payloads, length } }, { insight }) {
    const extent = { payloads, length, attempts: false }
    const { items } = await insight.jobs(queue, { ids: [id], by: 'id' }, extent)
    if (items.length > 0) return json(`{"jobs":[${items.map(jobText).join(',')}]}`)
    throw new Problem(404, 'LOCKSTEP_UNKNOWN_JOB', 'no job of the queue with this id waits or is in work')
  },
})

const dead = route({
  method: 'get',
  path: `${QUEUE}/dead`,
  scope: 'admin',
  name: 'findDead',
  summary: 'A page of dead payloads',
  query: deadQuery as z.ZodType<z.output<typeof deadQuery>>,
  answers: [foundDead],
  async answer({ queue, query }, { insight }) {
    const extent = { length: query.length, attempts: false }
    const { items, next } = await insight.dead(queue, deadFilterOf(query), extent)
    return listed('payloads', items.map(deadText), next)
  },
})

const stats = route({
  method: 'get',
  path: '/stats',
  scope: 'admin',
  name: 'getStats',
  summary: 'The state of all queues that the request may use',
  query: noQuery,
  answers: [allStats],
  async answer({ grant }, tools) {
    const { at, value } = await tools.stats.get()
    const allowed = await Promise.all(value.queues.map(({ queue }) => mayUse(grant, queue)))
    const seen = value.queues.filter((_, index) => allowed[index])
    return json(JSON.stringify({ at, queues: seen.map(statsOf) }))
  },
})

const queueStats = route({
  method: 'get',
  path: `${QUEUE}/stats`,
  scope: 'admin',
  name: 'getQueueStats',
  summary: 'The state of a queue',
  query: noQuery,
  answers: [oneStats],
  async answer({ queue }, tools) {
    const { at, value } = await newest(queue, tools)
    const found = value.queues.find((one) => one.queue === queue)
    if (found) return json(JSON.stringify({ at, stats: statsOf(found) }))
    throw new LockstepError('LOCKSTEP_UNKNOWN_QUEUE', 'the queue was deleted a moment ago')
  },
})

/** Shared, but also has a new queue. @throws LockstepError `LOCKSTEP_UNKNOWN_QUEUE` */
async function newest(queue: string, { stats, insight }: Tools): ReturnType<Tools['stats']['get']> {
  const shared = await stats.get()
  if (shared.value.queues.some((one) => one.queue === queue)) return shared
  // Who asks for what does not exist must not make everything be counted anew.
  await insight.requireQueue(queue)
  stats.forget()
  return stats.get()
}

export const LOOKS: readonly Route[] = [peek, find, one, dead, stats, queueStats]
