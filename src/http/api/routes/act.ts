import type { z } from 'zod'
import type { DeadFilter, Lockstep, Progression, ProgressionOptions } from '../../../index.ts'
import { streamed } from '../../../serving/progress.ts'
import { given } from '../../../serving/values.ts'
import { rangeOf } from '../filters.ts'
import { type Call, json, type Route, route } from '../route.ts'
import { deadChoice, nothing, paused, progressLine, shardsRequest } from '../schemas/act.ts'
import { noQuery } from '../schemas/look.ts'
import { parsed } from '../schemas/strict.ts'

const FROM = 'the HTTP API'
const LONG = 'Works in chunks, and stops if the client goes away. What is done stays done.'

type Begin = (lockstep: Lockstep, queue: string, options: ProgressionOptions) => Progression

interface Long<Body> {
  readonly path: string
  /** For the log and the audit. */
  readonly name: string
  readonly summary: string
  readonly body: z.ZodType<Body>
  begin(body: Body): Begin
}

function long<Body>({ path, name, summary, body, begin }: Long<Body>): Route {
  return route({
    method: 'post',
    path: `/queues/{queue}${path}`,
    scope: 'admin',
    name,
    summary,
    description: LONG,
    query: noQuery,
    body: [body],
    answers: [progressLine],
    isStream: true,
    answer(call, { lockstep, logger, stats }) {
      const { request, queue } = call
      const start = begin(parsed(body, call.body.value))
      return streamed(request, {
        deed: { event: 'api-action', action: name, queue, actor: call.grant.actor },
        from: FROM,
        logger,
        begin: (signal) => start(lockstep, queue, { signal, by: byOf(call) }),
        ended: () => stats.forget(),
      })
    },
  })
}

function switching(name: 'pause' | 'resume', summary: string): Route {
  return route({
    method: 'post',
    path: `/queues/{queue}/${name}`,
    scope: 'admin',
    name: `${name}Queue`,
    summary,
    query: noQuery,
    body: [nothing],
    mayBeEmpty: true,
    answers: [paused],
    async answer(call, { lockstep, logger, stats }) {
      const { queue, grant } = call
      parsed(nothing, call.body.value)
      await lockstep[name](queue, { by: byOf(call) })
      stats.forget()
      const fields = { event: 'api-action', action: name, queue, actor: grant.actor }
      logger.info(fields, `${name} of the queue "${queue}" from ${FROM}`)
      return json(JSON.stringify({ queue, paused: name === 'pause' }))
    },
  })
}

/** For the audit, which is kept also where nobody has to say who they are. */
function byOf({ grant }: Call): string {
  return grant.actor ?? 'HTTP API'
}

function deadFilterIn({ ids, filter = {} }: z.output<typeof deadChoice>): DeadFilter {
  if (ids) return { ids }
  const { id, died_at, score, keys, tenant } = filter
  return given({
    ids: filter.ids,
    id: id && rangeOf(id.from, id.to),
    diedAt: died_at && rangeOf(died_at.from, died_at.to),
    score: score && rangeOf(score.from, score.to),
    keys,
    tenant,
  })
}

export const ACTS: readonly Route[] = [
  long({
    path: '/dead/requeue',
    name: 'requeue',
    summary: 'Moves dead payloads back to their jobs, which become due now',
    body: deadChoice as z.ZodType<z.output<typeof deadChoice>>,
    begin: (choice) => (lockstep, queue, options) => lockstep.requeue(queue, deadFilterIn(choice), options),
  }),
  long({
    path: '/dead/delete',
    name: 'deleteDead',
    summary: 'Deletes dead payloads, for good',
    body: deadChoice as z.ZodType<z.output<typeof deadChoice>>,
    begin: (choice) => (lockstep, queue, options) =>
      lockstep.deleteDead(queue, deadFilterIn(choice), options),
  }),
  long({
    path: '/reshard',
    name: 'reshard',
    summary: 'Changes the number of shards, while the queue is in use',
    body: shardsRequest as z.ZodType<z.output<typeof shardsRequest>>,
    begin:
      ({ shards }) =>
      (lockstep, queue, options) =>
        lockstep.reshard(queue, shards, options),
  }),
  switching('pause', 'Nobody claims jobs of the queue until it is resumed'),
  switching('resume', 'Lets claims go on'),
]
