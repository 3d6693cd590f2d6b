import type { Found, QueueStats } from '../../index.ts'
import type { ShownJob } from '../reads/reads.ts'
import { ChoiceActs } from './act.tsx'
import { count, firstLine, plural } from './amounts.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { FilterForm } from './filters.tsx'
import type { ListView } from './list-view.ts'
import { Pager } from './pager.tsx'
import { jobPath, queuePath, withQuery } from './paths.ts'
import { QueueHead } from './queue.tsx'
import { Rail } from './rail.tsx'
import { When } from './times.tsx'

/** What waits, has failed before, or is in work. */
export type JobsTab = 'waiting' | 'retrying' | 'working'

interface JobsPageProps {
  readonly frame: Frame
  readonly queue: QueueStats
  readonly tab: JobsTab
  readonly found: Found<ShownJob>
  readonly view: ListView
}

const EMPTY: Readonly<Record<JobsTab, string>> = {
  waiting: 'No job waits. What is pushed next is performed at once, or when it is due.',
  retrying: 'No job that waits has failed before.',
  working: 'No job is in work.',
}

export function JobsPage({ frame, queue, tab, found, view }: JobsPageProps) {
  const path = `${queuePath(queue.queue)}/jobs/${tab}`
  const tenants = found.items.some(({ tenant }) => tenant !== null)
  return (
    <Document frame={frame} title={`${queue.queue}: ${tab}`} place={undefined}>
      <QueueHead frame={frame} queue={queue} tab={tab} />
      <FilterForm path={frame.base + path} view={view} times="due" retries={tab !== 'working'} />
      {found.items.length === 0 ? (
        <Nothing>
          <p>{view.isFiltered ? 'No job matches this filter.' : EMPTY[tab]}</p>
        </Nothing>
      ) : (
        <div
          data-selection={queuePath(queue.queue)}
          data-matching={JSON.stringify(view.matching)}
          data-count={view.countPath}
        >
          {tab !== 'working' && (
            <ChoiceActs frame={frame} acts={['jobs/perform-now', 'jobs/kill', 'jobs/delete']} />
          )}
          <div class="scroll" data-live>
            <table class="cards">
              <JobsHead
                path={frame.base + path}
                tab={tab}
                view={view}
                selects={frame.may.act}
                tenants={tenants}
              />
              <tbody>
                {found.items.map((job) => (
                  <JobRow frame={frame} queue={queue.queue} job={job} tab={tab} tenants={tenants} />
                ))}
              </tbody>
            </table>
          </div>
        </div>
      )}
      <Pager path={frame.base + path} view={view} next={found.next} />
    </Document>
  )
}

interface JobsHeadProps {
  readonly path: string
  readonly tab: JobsTab
  readonly view: ListView
  readonly selects: boolean
  readonly tenants: boolean
}

function JobsHead(props: JobsHeadProps) {
  const { path, tab, view } = props
  return (
    <thead>
      <tr>
        {tab !== 'working' && props.selects && (
          <th scope="col">
            <span class="hidden">select</span>
          </th>
        )}
        <SortHead path={path} view={view} by="id" text="id" />
        {props.tenants && <th scope="col">tenant</th>}
        <th scope="col">payloads</th>
        <SortHead path={path} view={view} by="performIn" text="due" />
        {tab === 'working' && <th scope="col">claimed</th>}
        <SortHead path={path} view={view} by="retryCount" text="failures" right />
        <th scope="col" class="n">
          shard
        </th>
        <th scope="col">last error</th>
      </tr>
    </thead>
  )
}

/** Sorts by a column; once it does, the other way round. */
export function SortHead(props: { path: string; view: ListView; by: string; text: string; right?: boolean }) {
  const { path, view, by, text, right } = props
  const sorted = view.by === by
  const direction = sorted && view.direction === 'asc' ? 'desc' : 'asc'
  const href = withQuery(path, { ...view.parameters, sort: by, direction })
  const order = view.direction === 'asc' ? 'ascending' : 'descending'
  return (
    <th scope="col" class={right ? 'n' : undefined} aria-sort={sorted ? order : undefined}>
      <a href={href}>
        {text}
        {sorted ? (view.direction === 'asc' ? ' ↑' : ' ↓') : ''}
      </a>
    </th>
  )
}

interface JobRowProps {
  readonly frame: Frame
  readonly queue: string
  readonly job: ShownJob
  readonly tab: JobsTab
  readonly tenants: boolean
}

function JobRow(props: JobRowProps) {
  const { frame, queue, job, tab } = props
  const failures = job.retryCount + 1
  return (
    <tr>
      {tab !== 'working' && frame.may.act && (
        <td class="wide">
          <input type="checkbox" data-row value={job.id} aria-label={`select ${job.id}`} />
        </td>
      )}
      <th scope="row" class="id">
        <a href={frame.base + jobPath(queue, job.id)}>{job.id}</a>
      </th>
      {props.tenants && <TenantCell tenant={job.tenant} />}
      <td>
        <Rail state={stateOf(job)} payloads={job.payloads.count} />
      </td>
      <td data-label="due">
        <When at={job.performIn} now={frame.now} />
      </td>
      {tab === 'working' && (
        <td data-label="claimed">{job.claimedAt && <When at={job.claimedAt} now={frame.now} />}</td>
      )}
      <td class="n" data-label="failures">
        <span class={failures > 0 ? 'retrying' : 'zero'}>{count(failures)}</span>
        {job.crashes > 0 && <span class="tag retrying">{plural(job.crashes, 'crash', 'crashes')}</span>}
      </td>
      <td class="n" data-label="shard">
        {job.shard}
        {job.lane > 0 && <span class="quiet"> lane {job.lane}</span>}
      </td>
      <td class="error wide" title={job.error ?? undefined}>
        {firstLine(job.error)}
      </td>
    </tr>
  )
}

/** Empty where there is none: a card then has no line for it. */
export function TenantCell({ tenant }: { tenant: string | null }) {
  if (tenant === null) return <td />
  return (
    <td class="id wide" data-label="tenant">
      <span class="brief" title={tenant}>
        {tenant}
      </span>
    </td>
  )
}

export function stateOf({ state, retryCount }: Pick<ShownJob, 'state' | 'retryCount'>) {
  if (state === 'working') return 'working'
  return retryCount >= 0 ? 'retrying' : 'waiting'
}
