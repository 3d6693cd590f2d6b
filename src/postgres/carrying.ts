import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { carryingDefinition } from './definitions.ts'
import { noteRelease } from './release.ts'
import { quoteIdentifier } from './schema-name.ts'

/**
 * Rows of jobs carry the first payload. A call of a function that began before the migration to this still has the body of
 * before: a claim would hand such a job over without its payload, and a push would not note in its row that it has others.
 * So the functions first learn to read such rows, and write them once all transactions of before have ended.
 */

/** ms */
const [LONGEST_WAIT, PAUSE] = [5_000, 50]

/** Whether new jobs carry their payload; false in a schema without such rows. */
export async function carries(client: pg.ClientBase, schema: string): Promise<boolean> {
  const name = `${quoteIdentifier(schema)}.carries()`
  const { rows } = await client.query('SELECT to_regprocedure($1) IS NOT NULL AS known', [name])
  if (!rows[0].known) return false
  return (await client.query(`SELECT ${name} AS carries`)).rows[0].carries
}

/** A transaction of another session, which may be in a call that began before now. */
interface Running {
  readonly virtualxid: string
}

/**
 * A session that idles in its transaction is in no call, nor is a vacuum. Extensions may push from workers of their own. Of a
 * session of another role it can't be seen whether it idles.
 */
const RUNNING = `SELECT l.virtualxid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'virtualxid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
    AND a.datname = current_database() AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender')
    AND coalesce(a.state, 'active') NOT LIKE 'idle%'`

/** Waits until all transactions that run now have ended, for some seconds. False if one goes on. */
async function outlast(client: pg.ClientBase, longest: number): Promise<boolean> {
  const until = performance.now() + longest
  const running = async (): Promise<Running[]> => (await client.query(RUNNING)).rows
  let before = new Set((await running()).map(({ virtualxid }) => virtualxid))
  while (before.size > 0 && performance.now() < until) {
    await sleep(PAUSE)
    const still = await running()
    before = new Set(still.map(({ virtualxid }) => virtualxid).filter((one) => before.has(one)))
  }
  return before.size === 0
}

/**
 * Lets new jobs carry their payload once no call of before runs. The definitions that can read them are committed.
 * Resolves to whether they do.
 */
export async function startCarrying(
  client: pg.ClientBase,
  schema: string,
  giveUpAfter: number,
): Promise<boolean> {
  if (await carries(client, schema)) return true
  if (!(await outlast(client, Math.min(giveUpAfter, LONGEST_WAIT)))) return false
  await client.query(`BEGIN; ${await carryingDefinition(schema)}; ${await noteRelease(schema)}; COMMIT`)
  return true
}
