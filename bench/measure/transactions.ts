import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'

/** Transactions a second of all sessions but this one, within `time` ms. */
export async function transactionRate(client: pg.Client, time: number): Promise<number> {
  const [before, since] = [await transactions(client), performance.now()]
  await sleep(time)
  const [after, until] = [await transactions(client), performance.now()]
  return (1000 * (after - before - 1)) / (until - since)
}

/** Including that of the query before. */
async function transactions(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    `SELECT (xact_commit + xact_rollback)::float8 AS count FROM pg_stat_database
     WHERE datname = current_database()`,
  )
  return rows[0].count
}
