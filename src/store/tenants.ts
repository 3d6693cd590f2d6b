import type { CheckedFairness } from '../fairness.ts'
import type { Database } from '../postgres/database.ts'

/** Gives a queue rules if it has none yet. */
export async function addFairness(
  database: Database,
  queueId: number,
  fairness: CheckedFairness,
): Promise<void> {
  await database.call('add_fairness', [queueId, JSON.stringify(fairness)])
}

/** A tenant whose next job a rule of its queue would send to another lane. */
export interface ThrottledTenant {
  readonly queueId: number
  readonly tenant: string
  readonly lane: number
}

/** Of the tenants that have pushed for `ms`, or are known already, those that are throttled. No more than 1,000 of a queue. */
export function throttledTenants(
  database: Database,
  queueIds: readonly number[],
  ms: number,
  known: readonly ThrottledTenant[],
): Promise<ThrottledTenant[]> {
  return database.query<ThrottledTenant>(
    `SELECT t.queue_id AS "queueId", t.tenant, t.lane FROM ${database.prefix}.throttled_tenants($1, $2, $3, $4) t`,
    [queueIds, ms / 1_000, known.map(({ queueId }) => queueId), known.map(({ tenant }) => tenant)],
  )
}

/** Gives back lanes of these queues that tenants have nothing in, or have had for long; in others, what nobody has served for a day. */
export async function trimTenantLanes(database: Database, queueIds: readonly number[]): Promise<void> {
  await database.call('trim_tenant_lanes', [10_000, queueIds])
}

/**
 * How many seconds the first jobs of a queue's tenants have been due, 1 for those that are not late and 0 where there are none, and
 * whose they seem to be: in lane -1, -2 and so on.
 */
export interface TenantWaits {
  readonly queueId: number
  readonly waits: readonly number[]
  /** '': not known. */
  readonly tenants: readonly string[]
}

/** Tells producers which lanes others had better not share. */
export async function noteTenantWaits(database: Database, all: readonly TenantWaits[]): Promise<void> {
  await database.call('note_tenant_waits', [
    all.map(({ queueId }) => queueId),
    all.flatMap(({ waits }) => waits),
    all.flatMap(({ tenants }) => tenants),
  ])
}

/** Deletes a bounded part of what no longer decides on lanes, and returns how many rows that were. */
export async function trimTenants(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_tenants: number }>('trim_tenants', [])
  return row!.trim_tenants
}
