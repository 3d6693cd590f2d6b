import type { Child } from 'hono/jsx'
import type { QueueStats } from '../../index.ts'
import { nameIn } from '../../serving/names.ts'
import type { View, WebApp, WebContext } from '../view.ts'
import { addAssets } from './assets.ts'
import { AuditPage } from './audit.tsx'
import { DeadPage } from './dead.tsx'
import type { Frame } from './document.tsx'
import { JobPage } from './job.tsx'
import { JobsPage, type JobsTab } from './jobs.tsx'
import { deadView, jobsView, ROWS } from './list-view.ts'
import { barsOf, sumOf } from './minutes.ts'
import { Overview } from './overview.tsx'
import { ProcessesPage } from './processes.tsx'
import { QueuePage, type Span } from './queue.tsx'

/** What is shown of the payloads on a job's own page. */
const WHOLE = { payloads: 100, length: 100_000, attempts: true }
const NONE = { payloads: 0, length: 0 }

/** Adds the pages, which only look: what they offer to do goes through the API. */
export function addPages(app: WebApp, view: View): void {
  addAssets(app)
  const page = (path: string, render: (context: WebContext, frame: Frame) => Promise<Child>) =>
    app.get(path, async (context) => {
      const document = await render(context, await frameOf(context))
      return context.html(`<!doctype html>${document}`)
    })
  const { reads } = view

  page('/', async (_, frame) => {
    const [stats, processes, hour] = await Promise.all([
      reads.overview(),
      reads.processes(),
      reads.lastHour(),
    ])
    const minutes = new Map(
      stats.value.queues.map(
        ({ queue }) => [queue, barsOf(hour.get(queue) ?? [], 'hour', frame.now)] as const,
      ),
    )
    const all = sumOf([...minutes.values()])
    return (
      <Overview
        frame={frame}
        stats={stats.value}
        processes={processes.value}
        minutes={minutes}
        all={all}
        rates={reads.rates()}
      />
    )
  })

  page('/processes', async (_, frame) => (
    <ProcessesPage frame={frame} processes={(await reads.processes()).value} />
  ))

  page('/audit', async (context, frame) => {
    const before = Number(context.req.query('before')) || undefined
    const entries = await reads.audit({ limit: ROWS, ...(before === undefined ? {} : { before }) })
    return <AuditPage frame={frame} entries={entries} before={before} isFull={entries.length === ROWS} />
  })

  page('/queues/:queue', async (context, frame) => {
    const name = nameOf(context, 'queue')
    const span: Span = context.req.query('span') === 'day' ? 'day' : 'hour'
    const [queue, parts, tenants, processes, bars] = await Promise.all([
      queueOf(name),
      reads.parts(name),
      reads.tenants(name),
      reads.processes(),
      minutesOf(name, span, frame),
    ])
    const props = {
      frame,
      queue,
      processes: processes.value,
      ...parts.value,
      tenants: tenants.value,
      bars,
      span,
      perSecond: reads.rates().get(name),
    }
    return <QueuePage {...props} />
  })

  for (const tab of ['waiting', 'retrying', 'working'] as const satisfies readonly JobsTab[])
    page(`/queues/:queue/jobs/${tab}`, async (context, frame) => {
      const name = nameOf(context, 'queue')
      const { view: list, find } = jobsView(name, tab, searchOf(context))
      const found = await reads.jobs(name, find, NONE)
      return <JobsPage frame={frame} queue={await queueOf(name)} tab={tab} found={found} view={list} />
    })

  page('/queues/:queue/dead', async (context, frame) => {
    const name = nameOf(context, 'queue')
    const { view: list, find } = deadView(name, searchOf(context))
    const found = await reads.dead(name, find, { length: 0 })
    return <DeadPage frame={frame} queue={await queueOf(name)} found={found} view={list} />
  })

  page('/queues/:queue/job/:id', async (context, frame) => {
    const [name, id] = [nameOf(context, 'queue'), nameOf(context, 'id')]
    const [jobs, dead] = await Promise.all([
      reads.jobs(name, { ids: [id], by: 'id' }, WHOLE),
      reads.dead(name, { ids: [id], limit: WHOLE.payloads }, WHOLE),
    ])
    const queue = await queueOf(name)
    return <JobPage frame={frame} queue={queue} id={id} entries={jobs.items} dead={dead.items} />
  })

  async function queueOf(name: string): Promise<QueueStats> {
    return (await reads.queue(name)).value
  }

  async function minutesOf(queue: string, span: Span, { now }: Frame) {
    return barsOf(await reads.minutes(queue), span, now)
  }
}

async function frameOf({ var: { visit } }: WebContext): Promise<Frame> {
  const [act, configure] = await Promise.all([visit.may('act'), visit.may('configure')])
  return { base: visit.base, token: visit.token(), may: { act, configure }, now: Date.now() }
}

/** Of the path, which has one where this is called. */
function nameOf({ req }: WebContext, what: 'queue' | 'id'): string {
  return nameIn(req.param(what)!)
}

function searchOf({ req }: WebContext): URLSearchParams {
  return new URL(req.url).searchParams
}
