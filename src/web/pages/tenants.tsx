import type { TenantList } from '../../index.ts'
import { plural } from './amounts.tsx'
import { Backlog } from './backlog.tsx'
import { withQuery } from './paths.ts'

/** Of a queue's page. */
const SHOWN = 10

interface TenantsProps {
  readonly list: TenantList
  /** Of the jobs that wait. */
  readonly path: string
}

/** The tenants for whom most waits, each with a link to its jobs. */
export function Tenants({ list: { total, items }, path }: TenantsProps) {
  const shown = items.slice(0, SHOWN)
  const most = Math.max(...shown.map(({ waiting }) => waiting))
  return (
    <section>
      <h2>Tenants</h2>
      <p class="quiet">
        {total > SHOWN
          ? `The ${SHOWN} of ${plural(total, 'tenant')} for whom most waits.`
          : 'A bar shows how much waits, beside the one for whom most does.'}
      </p>
      <ul class="shards tenants">
        {shown.map(({ tenant, waiting, working, lag, lane, throttled }) => (
          <li>
            <span class="pair">
              <a class="id brief" href={withQuery(path, { tenant })} title={tenant}>
                {tenant}
              </a>
              {throttled && <span class="tag retrying">throttled: lane {lane}</span>}
            </span>
            <Backlog waiting={waiting} working={working} lag={lag} most={most} />
          </li>
        ))}
      </ul>
    </section>
  )
}
