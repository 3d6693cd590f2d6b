import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { NOTIFIED } from '../entrants.ts'
import { transactionRate } from '../measure/transactions.ts'
import { startIdleProcess } from '../worker-process.ts'

/** ms until everything that a start brings with it is over, and pools have closed what they opened for it. */
const SETTLE = 15_000
/** ms for the sessions of others to end, and for sessions to report their counts. */
const LAG = 2_000

/**
 * Transactions a second of worker processes that have nothing to do, as the server counts them. A session that reads no
 * table, such as one that waits for wake-ups, reports its few only when it ends: those are left out.
 */
async function idle({ contender, pool, entrant, setting, size }: Bench, processes: number): Promise<Figures> {
  // No other session may count.
  await Promise.all([contender.close(), pool.end()])
  const client = new pg.Client({ connectionString: setting.connectionString })
  await client.connect()
  const workers = []
  while (workers.length < processes) workers.push(await startIdleProcess(entrant, setting))
  await sleep(SETTLE + LAG)
  const value = await transactionRate(client, size.seconds! * 1000)
  const connections = (await sessions(client)) / processes
  await Promise.all(workers.map((worker) => worker.stop()))
  return { value, connections }
}

/** Excludes the session that asks. */
async function sessions(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    `SELECT count(*)::integer AS count FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
  )
  return rows[0].count
}

export const idleCases: readonly Case[] = [1, 10].map((processes) => ({
  name: `idle-${processes}`,
  title: processes === 1 ? 'an idle worker' : `${processes} idle workers`,
  unit: 'tx/s',
  // Our default: others look once for each.
  concurrency: 5,
  entrants: NOTIFIED,
  full: { jobs: 0, seconds: 30, patience: 0, repeats: 1 },
  quick: { jobs: 0, seconds: 20, patience: 0 },
  inQuick: false,
  run: (bench) => idle(bench, processes),
}))
