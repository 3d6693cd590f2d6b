import type { ProcessRow, QueueStats, Stats } from '../../index.ts'
import { diagnose } from '../diagnosis.ts'
import { Count, count, duration, plural, rate } from './amounts.tsx'
import { type Bar, Chart, Spark } from './chart.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { Findings } from './findings.tsx'
import { queuePath } from './paths.ts'

interface OverviewProps {
  readonly frame: Frame
  readonly stats: Stats
  readonly processes: readonly ProcessRow[]
  /** Of the last hour, a bar a minute, by queue. */
  readonly minutes: ReadonlyMap<string, readonly Bar[]>
  /** The same of all queues. */
  readonly all: readonly Bar[]
  /** Rounds a second by queue; empty until they are known. */
  readonly rates: ReadonlyMap<string, number>
}

export function Overview({ frame, stats, processes, minutes, all, rates }: OverviewProps) {
  const { queues, total } = stats
  const slots = processes.reduce((sum, one) => sum + one.slots, 0)
  return (
    <Document frame={frame} title="Overview" place="overview">
      <h1 class="hidden">Overview</h1>
      {queues.length === 0 ? (
        <Nothing>
          <p>There is no queue yet.</p>
          <p>The first worker that starts, or the first push from TypeScript, creates one.</p>
        </Nothing>
      ) : (
        <div data-live>
          <Findings findings={diagnose(queues, processes)} frame={frame} />
          <dl class="figures">
            <Figure name="lag" of={duration(total.lag)} />
            <Figure name="waiting" of={count(total.waiting)} note={`${count(total.due)} due`} />
            <Figure name="working" of={count(total.working)} state="working" note={`${count(slots)} slots`} />
            <Figure name="retrying" of={count(total.retrying)} state="retrying" />
            <Figure name="dead" of={count(total.dead)} state="dead" note="payloads" />
            <Figure
              name="a second"
              of={rate(sumOf(rates) ?? lately(all))}
              note={`${plural(processes.length, 'process', 'processes')}`}
            />
          </dl>
          <section>
            <QueueTable frame={frame} queues={queues} minutes={minutes} rates={rates} />
          </section>
          <section class="card">
            <h2>Rounds a second, the last hour</h2>
            <Chart bars={all} seconds={60} title="Rounds a second of all queues in the last hour" />
            <p class="legend">
              <span>
                <i />
                processed
              </span>
              <span>
                <i class="failed" />
                failed
              </span>
            </p>
          </section>
        </div>
      )}
    </Document>
  )
}

/** Undefined if none is known yet. */
function sumOf(rates: ReadonlyMap<string, number>): number | undefined {
  return rates.size === 0 ? undefined : [...rates.values()].reduce((sum, one) => sum + one, 0)
}

/** Minutes whose mean is the rate. The current one has just begun, and is left out. */
const LATELY = 2

/** Rounds a second. */
export function lately(bars: readonly Bar[]): number | undefined {
  const last = bars.slice(-1 - LATELY, -1)
  if (last.length === 0) return undefined
  return last.reduce((sum, { processed, failed }) => sum + processed + failed, 0) / (60 * last.length)
}

export function Figure(props: { name: string; of: string; state?: string; note?: string | undefined }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd class={props.of === '0' ? 'zero' : props.state}>
        {props.of}
        {props.note && <small>{props.note}</small>}
      </dd>
    </div>
  )
}

interface QueueTableProps {
  readonly frame: Frame
  readonly queues: readonly QueueStats[]
  readonly minutes: OverviewProps['minutes']
  readonly rates: OverviewProps['rates']
}

function QueueTable({ frame, queues, minutes, rates }: QueueTableProps) {
  return (
    <div class="scroll">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">queue</th>
            <th scope="col" class="n">
              lag
            </th>
            <th scope="col" class="n">
              waiting
            </th>
            <th scope="col" class="n">
              due
            </th>
            <th scope="col" class="n">
              retrying
            </th>
            <th scope="col" class="n">
              working
            </th>
            <th scope="col" class="n">
              dead
            </th>
            <th scope="col" class="n">
              per s
            </th>
            <th scope="col">last hour</th>
          </tr>
        </thead>
        <tbody>
          {queues.map((one) => (
            <QueueRow
              frame={frame}
              of={one}
              bars={minutes.get(one.queue) ?? []}
              perSecond={rates.get(one.queue)}
            />
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** There is nothing to see behind a zero. */
function CountLink({ to, n, state }: { to: string; n: number; state?: 'retrying' | 'working' | 'dead' }) {
  if (n === 0) return <Count n={0} />
  return (
    <a href={to}>
      <Count n={n} state={state} />
    </a>
  )
}

function QueueRow(props: {
  frame: Frame
  of: QueueStats
  bars: readonly Bar[]
  perSecond: number | undefined
}) {
  const { frame, of, bars, perSecond } = props
  const path = frame.base + queuePath(of.queue)
  return (
    <tr>
      <th scope="row" class="id">
        <a href={path}>{of.queue}</a> {of.pausedAt && <span class="tag">paused</span>}
      </th>
      <td class="n" data-label="lag">
        {of.lag === 0 ? <span class="zero">0</span> : duration(of.lag)}
      </td>
      <td class="n" data-label="waiting">
        <CountLink to={`${path}/jobs/waiting`} n={of.waiting} />
      </td>
      <td class="n" data-label="due">
        <Count n={of.due} />
      </td>
      <td class="n" data-label="retrying">
        <CountLink to={`${path}/jobs/retrying`} n={of.retrying} state="retrying" />
      </td>
      <td class="n" data-label="working">
        <CountLink to={`${path}/jobs/working`} n={of.working} state="working" />
      </td>
      <td class="n" data-label="dead">
        <CountLink to={`${path}/dead`} n={of.dead} state="dead" />
      </td>
      <td class="n" data-label="per s">
        {rate(perSecond ?? lately(bars))}
      </td>
      <td class="wide">
        <Spark bars={bars} />
      </td>
    </tr>
  )
}
