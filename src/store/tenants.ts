import type { CheckedFairness } from '../fairness.ts'
import type { Database } from '../postgres/database.ts'

/** Gives a queue rules if it has none yet. */
export async function addFairness(
  database: Database,
  queueId: number,
  fairness: CheckedFairness,
): Promise<void> {
  await database.call('add_fairness', [queueId, rulesOf(fairness)])
}

/** Gives queues the rules of their definitions, in one call. Returns the numbers of those that had others. */
export async function replaceFairness(
  database: Database,
  definitions: readonly { readonly queueId: number; readonly fairness: CheckedFairness | undefined }[],
): Promise<number[]> {
  const rows = await database.query<{ queueId: number }>(
    // In one order, so that two workers that start at once can't deadlock.
    `SELECT d.queue_id AS "queueId"
     FROM (SELECT * FROM unnest($1::integer[], $2::jsonb[]) AS d(queue_id, fairness) ORDER BY 1 OFFSET 0) d
     WHERE ${database.prefix}.set_fairness(d.queue_id, d.fairness)`,
    [definitions.map(({ queueId }) => queueId), definitions.map(({ fairness }) => rulesOf(fairness))],
  )
  return rows.map(({ queueId }) => queueId)
}

function rulesOf(fairness: CheckedFairness | undefined): string | null {
  return fairness ? JSON.stringify(fairness) : null
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

/** Gives back lanes that tenants have nothing in, or have had for long. */
export async function trimTenantLanes(database: Database): Promise<void> {
  await database.call('trim_tenant_lanes', [])
}

/** Deletes a bounded part of what no longer decides on lanes, and returns how many rows that were. */
export async function trimTenants(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_tenants: number }>('trim_tenants', [])
  return row!.trim_tenants
}
