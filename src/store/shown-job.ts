import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../postgres/database.ts'
import type { FoundJob } from './jobs.ts'
import { msText } from './time.ts'

/** How the payloads of an entry are shown, given as one JSON array, or null if there are none. */
export type PayloadsShown<Shown> = (payloads: RawBuilder<unknown>) => RawBuilder<Shown>

export const whole: PayloadsShown<FoundJob['payloads']> = (payloads) => sql`coalesce(${payloads}, '[]')`

/** The columns of an entry `e` that are found. */
export function shown<Shown>({ schema }: Database, show: PayloadsShown<Shown>) {
  const working = sql`e.state = 'working'`
  const payloads = sql`case when e.next then ${sql.id(schema, 'payloads_from')}(e.queue_id, e.id, e.fence)
    else ${sql.id(schema, 'payloads_of')}(e.queue_id, e.id, case when ${working} then e.fence end) end`
  return [
    'e.id',
    'e.shard',
    sql<number>`greatest(e.lane, 0)`.as('lane'),
    'e.tenant',
    sql.raw<number>(msText('e.perform_in')).as('performIn'),
    'e.retry_count as retryCount',
    'e.crashes',
    'e.error',
    'e.state',
    sql<number | null>`case when ${working} then ${sql.raw(msText('e.claimed_at'))} end`.as('claimedAt'),
    sql<number | null>`case when ${working} then e.claimed_by end`.as('processId'),
    sql<number | null>`case when ${working} then e.fence end`.as('fence'),
    sql<number | null>`case when ${working} and e.claimed_by = 0 then (
      select ${sql.raw(msText('max(l.ends_at)'))} from ${sql.id(schema, 'leases')} l
      where l.queue_id = e.queue_id and l.fence = e.fence and e.id = any (l.ids)) end`.as('leaseEndsAt'),
    show(payloads).as('payloads'),
  ] as const
}
