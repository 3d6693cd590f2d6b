import type { CheckedFairness } from '../fairness.ts'
import type { Database } from '../postgres/database.ts'

/**
 * Gives a queue its rules; undefined: none. Unless `replace`, only if it has none yet. Returns whether it had others.
 */
export async function setFairness(
  database: Database,
  queueId: number,
  fairness: CheckedFairness | undefined,
  replace: boolean,
): Promise<boolean> {
  const rules = fairness ? JSON.stringify(fairness) : null
  const [row] = await database.call<{ set_fairness: boolean }>('set_fairness', [queueId, rules, replace])
  return row!.set_fairness
}

/** Deletes a bounded part of what no longer decides on lanes, and returns how many rows that were. */
export async function trimTenants(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_tenants: number }>('trim_tenants', [])
  return row!.trim_tenants
}
