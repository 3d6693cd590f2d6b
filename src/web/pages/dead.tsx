import type { Found, QueueStats } from '../../index.ts'
import type { ShownDead } from '../reads/reads.ts'
import { ChoiceActs } from './act.tsx'
import { firstLine } from './amounts.tsx'
import { Document, type Frame, Nothing } from './document.tsx'
import { FilterForm } from './filters.tsx'
import { SortHead, TenantCell } from './jobs.tsx'
import type { ListView } from './list-view.ts'
import { Pager } from './pager.tsx'
import { jobPath, queuePath } from './paths.ts'
import { QueueHead } from './queue.tsx'
import { When } from './times.tsx'

interface DeadPageProps {
  readonly frame: Frame
  readonly queue: QueueStats
  readonly found: Found<ShownDead>
  readonly view: ListView
}

export function DeadPage({ frame, queue, found, view }: DeadPageProps) {
  const path = `${queuePath(queue.queue)}/dead`
  const tenants = found.items.some(({ tenant }) => tenant !== null)
  return (
    <Document frame={frame} title={`${queue.queue}: dead`} place={undefined}>
      <QueueHead frame={frame} queue={queue} tab="dead" />
      <FilterForm path={frame.base + path} view={view} times="died" retries={false} />
      {found.items.length === 0 ? (
        <Nothing>
          <p>
            {view.isFiltered
              ? 'No dead payload matches this filter.'
              : 'The morgue is empty. Payloads whose retries are used up come here.'}
          </p>
        </Nothing>
      ) : (
        <div
          data-selection={queuePath(queue.queue)}
          data-matching={JSON.stringify(view.matching)}
          data-count={view.countPath}
        >
          <ChoiceActs frame={frame} acts={['dead/requeue', 'dead/delete']} />
          <div class="scroll" data-live>
            <table class="cards">
              <thead>
                <tr>
                  {frame.may.act && (
                    <th scope="col">
                      <span class="hidden">select</span>
                    </th>
                  )}
                  <SortHead path={frame.base + path} view={view} by="id" text="id" />
                  {tenants && <th scope="col">tenant</th>}
                  <SortHead path={frame.base + path} view={view} by="diedAt" text="died" />
                  <SortHead path={frame.base + path} view={view} by="score" text="score" right />
                  <th scope="col">died of</th>
                </tr>
              </thead>
              <tbody>
                {found.items.map((dead) => (
                  <DeadRow frame={frame} queue={queue.queue} dead={dead} tenants={tenants} />
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

interface DeadRowProps {
  readonly frame: Frame
  readonly queue: string
  readonly dead: ShownDead
  readonly tenants: boolean
}

function DeadRow({ frame, queue, dead, tenants }: DeadRowProps) {
  return (
    <tr>
      {frame.may.act && (
        <td class="wide">
          <input
            type="checkbox"
            data-row
            data-key={dead.key}
            value={dead.id}
            aria-label={`select ${dead.id}`}
          />
        </td>
      )}
      <th scope="row" class="id">
        <a href={frame.base + jobPath(queue, dead.id)}>{dead.id}</a>
      </th>
      {tenants && <TenantCell tenant={dead.tenant} />}
      <td data-label="died">
        <When at={dead.diedAt} now={frame.now} />
      </td>
      <td class="n" data-label="score">
        {String(dead.score)}
      </td>
      <td class="error wide" title={dead.error ?? undefined}>
        {firstLine(dead.error)}
      </td>
    </tr>
  )
}
