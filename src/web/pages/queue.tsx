import type { Child } from 'hono/jsx'
import type { ProcessRow, QueueStats, TenantList } from '../../index.ts'
import type { LaneStats, ShardStats } from '../../store/parts.ts'
import { diagnose } from '../diagnosis.ts'
import { Act } from './act.tsx'
import { count, duration, plural, rate } from './amounts.tsx'
import { type Bar, Chart } from './chart.tsx'
import { Document, type Frame } from './document.tsx'
import { Findings } from './findings.tsx'
import { Figure, lately } from './overview.tsx'
import { queuePath, withQuery } from './paths.ts'
import { Policy } from './policy.tsx'
import { Share } from './rail.tsx'
import { ShardMap } from './shards.tsx'
import { Tenants } from './tenants.tsx'
import { When } from './times.tsx'

/** How far back a chart looks. */
export type Span = 'hour' | 'day'

interface QueuePageProps {
  readonly frame: Frame
  readonly queue: QueueStats
  readonly processes: readonly ProcessRow[]
  readonly shards: readonly ShardStats[]
  readonly lanes: readonly LaneStats[]
  readonly tenants: TenantList
  readonly bars: readonly Bar[]
  readonly span: Span
  /** Rounds a second, if that is known. */
  readonly perSecond: number | undefined
}

export function QueuePage(props: QueuePageProps) {
  const { frame, queue, processes, shards, lanes, tenants, bars, span, perSecond } = props
  const path = queuePath(queue.queue)
  return (
    <Document frame={frame} title={queue.queue} place={undefined}>
      <QueueHead frame={frame} queue={queue} tab="overview">
        {frame.may.configure && <Steering queue={queue} />}
      </QueueHead>
      <div data-live>
        <Findings
          findings={diagnose([queue], processes).filter(({ kind }) => kind !== 'silent')}
          frame={frame}
        />
        <dl class="figures">
          <Figure name="lag" of={queue.lag === 0 ? '0' : duration(queue.lag)} />
          <Figure name="waiting" of={count(queue.waiting)} note={`${count(queue.due)} due`} />
          <Figure name="fresh" of={count(queue.fresh)} note="never failed" />
          <Figure name="retrying" of={count(queue.retrying)} state="retrying" />
          <Figure name="working" of={count(queue.working)} state="working" />
          <Figure name="dead" of={count(queue.dead)} state="dead" note="payloads" />
          <Figure name="a second" of={rate(perSecond ?? (span === 'hour' ? lately(bars) : undefined))} />
        </dl>
        <section class="card">
          <div class="above">
            <h2>Rounds a second</h2>
            <div class="actions tabs-inline">
              <SpanLink path={frame.base + path} span="hour" of={span} text="last hour" />
              <SpanLink path={frame.base + path} span="day" of={span} text="last day" />
            </div>
          </div>
          <Chart
            bars={bars}
            seconds={span === 'hour' ? 60 : 600}
            title={`Rounds a second of ${queue.queue} in the last ${span}`}
          />
          <p class="legend">
            <span>
              <i />
              processed: {count(queue.processed)} in all
            </span>
            <span>
              <i class="failed" />
              failed: {count(queue.failed)} in all
            </span>
            {queue.expired > 0 && <span>expired: {plural(queue.expired, 'payload')} in all</span>}
          </p>
        </section>
        <section>
          <h2>Shards</h2>
          <p class="quiet">
            Jobs of one id share a shard. A bar shows how many wait, beside the fullest one.
          </p>
          <ShardMap shards={shards} processes={processes} />
        </section>
        {lanes.some(({ lane }) => lane > 0) && <Lanes lanes={lanes} />}
        {tenants.total > 0 && <Tenants list={tenants} path={`${frame.base + path}/jobs/waiting`} />}
        <Policy queue={queue.queue} processes={processes} />
      </div>
      {frame.may.configure && <Reshard queue={queue} />}
    </Document>
  )
}

function Lanes({ lanes }: { lanes: readonly LaneStats[] }) {
  const most = Math.max(...lanes.map(({ waiting }) => waiting))
  return (
    <section>
      <h2>Lanes</h2>
      <ul class="shards">
        {lanes.map(({ lane, waiting, lag }) => (
          <li>
            <b>{lane}</b>
            <Share of={waiting} most={most} label={`${count(waiting)} waiting`} />
            <span class="pair">
              <span>{count(waiting)}</span>
              <span class="quiet">{lag === 0 ? '' : duration(lag)}</span>
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function Reshard({ queue }: { queue: QueueStats }) {
  return (
    <section class="card">
      <h2>Reshard</h2>
      <p class="quiet">
        More shards let more processes work side by side. Growing moves no jobs; shrinking moves those of the
        removed shards.
      </p>
      <form class="filters" data-form={`${queuePath(queue.queue)}/reshard`}>
        <label>
          shards
          <input name="shards" type="number" min="1" max="16384" required value={String(queue.shards)} />
        </label>
        <button
          type="submit"
          data-question={`Reshard ${queue.queue}?`}
          data-effect="Producers and workers go on meanwhile."
        >
          Reshard
        </button>
      </form>
    </section>
  )
}

function SpanLink({ path, span, of, text }: { path: string; span: Span; of: Span; text: string }) {
  return (
    <a href={withQuery(path, { span })} aria-current={span === of ? 'true' : undefined}>
      {text}
    </a>
  )
}

function Steering({ queue }: { queue: QueueStats }) {
  const path = queuePath(queue.queue)
  return (
    <div class="actions">
      {queue.pausedAt ? (
        <Act to={`${path}/resume`} class="main">
          Resume
        </Act>
      ) : (
        <Act to={`${path}/pause`}>Pause</Act>
      )}
    </div>
  )
}

export type QueueTab = 'overview' | 'waiting' | 'retrying' | 'working' | 'dead'

/** The head of each page of a queue. */
export function QueueHead(props: {
  frame: Frame
  queue: QueueStats
  tab: QueueTab | undefined
  children?: Child
}) {
  const { frame, queue, tab } = props
  const path = frame.base + queuePath(queue.queue)
  const tabs: readonly (readonly [QueueTab, string, string])[] = [
    ['overview', path, 'Overview'],
    ['waiting', `${path}/jobs/waiting`, `Waiting ${count(queue.waiting)}`],
    ['retrying', `${path}/jobs/retrying`, `Retrying ${count(queue.retrying)}`],
    ['working', `${path}/jobs/working`, `Working ${count(queue.working)}`],
    ['dead', `${path}/dead`, `Dead ${count(queue.dead)}`],
  ]
  return (
    <>
      <div class="head" data-live>
        <h1>{queue.queue}</h1>
        {queue.pausedAt && (
          <span class="tag">
            paused <When at={queue.pausedAt} now={frame.now} />
          </span>
        )}
        {props.children}
      </div>
      <nav aria-label="Queue" data-live>
        <ul class="tabs">
          {tabs.map(([name, href, text]) => (
            <li>
              <a href={href} aria-current={name === tab ? 'page' : undefined}>
                {text}
              </a>
            </li>
          ))}
        </ul>
      </nav>
    </>
  )
}
