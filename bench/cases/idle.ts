import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { NOTIFIED } from '../entrants.ts'
import { startIdleProcess } from '../worker-process.ts'

/** ms until what a start brings with it is over, and pools have ended what they opened for it. */
const SETTLE = 15_000
/** Transactions of the one who measures: his first look, which tells what was before it. */
const OWN = 1

/**
 * Transactions a second of worker processes that have nothing to do. Sessions tell their counts up to ten seconds later; they do
 * so at the end as at the beginning.
 */
async function idle({ entrant, contender, setting, size }: Bench, processes: number): Promise<Figures> {
  // What it keeps doing itself would count.
  await contender.close()
  const client = new pg.Client({ connectionString: setting.connectionString })
  await client.connect()
  const workers = []
  while (workers.length < processes) workers.push(await startIdleProcess(entrant, setting))
  await sleep(SETTLE)
  const before = await transactions(client)
  const startedAt = performance.now()
  await sleep(size.seconds! * 1000)
  const after = await transactions(client)
  const seconds = (performance.now() - startedAt) / 1000
  const connections = (await sessions(client)) / processes
  await Promise.all(workers.map((worker) => worker.stop()))
  return { value: (after - before - OWN) / seconds, connections }
}

async function transactions(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    `SELECT (xact_commit + xact_rollback)::float8 AS count FROM pg_stat_database
     WHERE datname = current_database()`,
  )
  return rows[0].count
}

/** Of others than the one who asks. */
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
  // As many as ours has by default: others look once for each.
  concurrency: 5,
  entrants: NOTIFIED,
  full: { jobs: 0, seconds: 30, patience: 0 },
  quick: { jobs: 0, seconds: 20, patience: 0 },
  inQuick: false,
  run: (bench) => idle(bench, processes),
}))
