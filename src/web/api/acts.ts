import type { DeadFilter, JobFilter, Lockstep, Progression, ProgressionOptions } from '../../index.ts'
import { streamed } from '../../serving/progress.ts'
import type { WebContext } from '../view.ts'
import { bodyOf, deadChoiceOf, jobChoiceOf, requireEmpty, shardsOf, withJobsOf } from './body.ts'
import { noQuery } from './query.ts'
import { processIn, queueIn, type Route } from './routes.ts'

interface Start {
  /** For the log. */
  readonly details: object
  begin(lockstep: Lockstep, queue: string, options: ProgressionOptions): Progression
}

/** `start` checks the body. The action begins once all is well. */
function long(
  path: string,
  needs: Route['needs'],
  action: string,
  start: (body: Record<string, unknown>) => Start,
): Route {
  return {
    method: 'post',
    path: `/queues/{queue}${path}`,
    needs,
    async answer(context, { lockstep, logger, view }) {
      noQuery(context.req.url)
      const { details, begin } = start(bodyOf(await context.req.text()))
      const queue = queueIn(context)
      return streamed(context.req.raw, {
        deed: { event: 'web-action', action, queue, actor: context.var.visit.actor, ...details },
        from: 'the web page',
        logger,
        begin: (signal) => begin(lockstep, queue, { signal, by: byOf(context) }),
        ended: () => view.reads.forget(),
      })
    },
  }
}

type JobAct = (
  lockstep: Lockstep,
  queue: string,
  filter: JobFilter,
  options: ProgressionOptions,
) => Progression
type DeadAct = (
  lockstep: Lockstep,
  queue: string,
  filter: DeadFilter,
  options: ProgressionOptions,
) => Progression

const onJobs = (path: string, action: string, act: JobAct): Route =>
  long(`/jobs/${path}`, 'act', action, (body) => {
    const filter = jobChoiceOf(body)
    return { details: { filter }, begin: (lockstep, queue, options) => act(lockstep, queue, filter, options) }
  })

const onDead = (path: string, action: string, act: DeadAct): Route =>
  long(`/dead/${path}`, 'act', action, (body) => {
    const filter = deadChoiceOf(body)
    return { details: { filter }, begin: (lockstep, queue, options) => act(lockstep, queue, filter, options) }
  })

function switching(path: 'pause' | 'resume', paused: boolean): Route {
  return {
    method: 'post',
    path: `/queues/{queue}/${path}`,
    needs: 'configure',
    async answer(context: WebContext, { lockstep, logger, view }) {
      noQuery(context.req.url)
      requireEmpty(bodyOf(await context.req.text()))
      const queue = queueIn(context)
      await lockstep[path](queue, { by: byOf(context) })
      view.reads.forget()
      const { actor } = context.var.visit
      logger.info({ event: 'web-action', action: path, queue, actor }, `${path} of the queue "${queue}"`)
      return context.json({ queue, paused })
    },
  }
}

/** Told to a worker process. */
function steering(path: 'quiet' | 'stop'): Route {
  return {
    method: 'post',
    path: `/processes/{process}/${path}`,
    needs: 'configure',
    async answer(context: WebContext, { lockstep, logger, view }) {
      noQuery(context.req.url)
      requireEmpty(bodyOf(await context.req.text()))
      const processId = processIn(context)
      await lockstep[path](processId, { by: byOf(context) })
      view.reads.forget()
      const { actor } = context.var.visit
      logger.info({ event: 'web-action', action: path, processId, actor }, `${path} of process ${processId}`)
      return context.json({ processId, request: path })
    },
  }
}

/** For the audit, which is kept also where nobody has to say who they are. */
function byOf({ var: { visit } }: WebContext): string {
  return visit.actor ?? 'web page'
}

export const ACTS: readonly Route[] = [
  onJobs('perform-now', 'performNow', (lockstep, queue, filter, options) =>
    lockstep.performNow(queue, filter, options),
  ),
  onJobs('delete', 'delete', (lockstep, queue, filter, options) => lockstep.delete(queue, filter, options)),
  onJobs('kill', 'kill', (lockstep, queue, filter, options) => lockstep.kill(queue, filter, options)),
  onDead('requeue', 'requeue', (lockstep, queue, filter, options) =>
    lockstep.requeue(queue, filter, options),
  ),
  onDead('delete', 'deleteDead', (lockstep, queue, filter, options) =>
    lockstep.deleteDead(queue, filter, options),
  ),
  switching('pause', true),
  switching('resume', false),
  steering('quiet'),
  steering('stop'),
  long('/reshard', 'configure', 'reshard', (body) => {
    const shards = shardsOf(body)
    return {
      details: { shards },
      begin: (lockstep, queue, options) => lockstep.reshard(queue, shards, options),
    }
  }),
  long('/delete', 'configure', 'deleteQueue', (body) => {
    const withJobs = withJobsOf(body)
    return {
      details: { withJobs },
      begin: (lockstep, queue, options) => lockstep.deleteQueue(queue, { withJobs, ...options }),
    }
  }),
]
