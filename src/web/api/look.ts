import { Problem } from '../../serving/problem.ts'
import { VERSION } from '../../version.ts'
import { ACTIONS } from '../access/users.ts'
import type { WebContext } from '../view.ts'
import { lengthsOf } from './lengths.ts'
import { OPENAPI } from './openapi.ts'
import { deadFilterOf, deadQueryOf, jobFilterOf, jobQueryOf, noQuery, oneJobOf } from './query.ts'
import { queueIn, type Route, type Tools } from './routes.ts'

async function session(context: WebContext, { view }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const { visit } = context.var
  const may = await Promise.all(ACTIONS.map(async (action) => [action, await visit.may(action)] as const))
  const { actor = null, base } = visit
  const { readOnly } = view
  return context.json({
    token: visit.token(),
    actor,
    may: Object.fromEntries(may),
    readOnly,
    base,
    version: VERSION,
  })
}

async function stats(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const { at, value } = await reads.overview()
  return context.json({ at, ...lengthsOf(value) })
}

async function queues(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const { at, value } = await reads.overview()
  return context.json({ at, queues: value.queues, total: value.total })
}

async function queue(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const name = queueIn(context)
  const parts = await reads.parts(name)
  const state = await reads.queue(name)
  return context.json({ at: older(state.at, parts.at), stats: state.value, shards: parts.value.shards })
}

/** Those for whom most waits. */
async function tenants(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const { at, value } = await reads.tenants(queueIn(context))
  const { total, rules, items } = value
  return context.json({ at, total, rules, items })
}

async function minutes(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  return context.json({ items: await reads.minutes(queueIn(context)) })
}

async function jobs(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  const { filter, extent } = jobQueryOf(context.req.url)
  const { items, next = null } = await reads.jobs(queueIn(context), filter, extent)
  return context.json({ items, next })
}

async function countJobs(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  return context.json(await reads.countJobs(queueIn(context), jobFilterOf(context.req.url)))
}

/** An id that was pushed while its job is in work has two entries. */
async function job(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  const { id, extent } = oneJobOf(context.req.url)
  const { items } = await reads.jobs(queueIn(context), { ids: [id], by: 'id' }, extent)
  if (items.length > 0) return context.json({ items })
  throw new Problem(404, 'LOCKSTEP_UNKNOWN_JOB', 'no job of the queue with this id waits or is in work')
}

async function dead(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  const { filter, length } = deadQueryOf(context.req.url)
  const { items, next = null } = await reads.dead(queueIn(context), filter, { length })
  return context.json({ items, next })
}

async function countDead(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  return context.json(await reads.countDead(queueIn(context), deadFilterOf(context.req.url)))
}

async function processes(context: WebContext, { view: { reads } }: Tools): Promise<Response> {
  noQuery(context.req.url)
  const { at, value } = await reads.processes()
  return context.json({ at, items: value })
}

const older = (one: Date, other: Date) => (one < other ? one : other)

const look = (path: string, answer: Route['answer']): Route => ({
  method: 'get',
  path,
  needs: 'view',
  answer,
})

export const LOOKS: readonly Route[] = [
  look('/openapi.json', (context) => context.json(OPENAPI)),
  look('/session', session),
  look('/stats', stats),
  look('/queues', queues),
  look('/queues/{queue}', queue),
  look('/queues/{queue}/tenants', tenants),
  look('/queues/{queue}/minutes', minutes),
  look('/queues/{queue}/jobs', jobs),
  look('/queues/{queue}/jobs/count', countJobs),
  look('/queues/{queue}/job', job),
  look('/queues/{queue}/dead', dead),
  look('/queues/{queue}/dead/count', countDead),
  look('/processes', processes),
]
