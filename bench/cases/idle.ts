import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { NOTIFIED } from '../entrants.ts'
import { startIdleProcess } from '../worker-process.ts'

/** ms until what a start brings with it is over, and pools have ended what they opened for it. */
const SETTLE = 15_000
/** ms for sessions to end whose processes have. */
const LAG = 2_000

/** Of worker processes, from their start to their end. */
interface Life {
  readonly transactions: number
  /** Of all of them together. */
  readonly seconds: number
  /** Shortly before the end, of each. */
  readonly connections: number
}

/**
 * Transactions a second of worker processes that have nothing to do: the difference of a longer and a shorter life. A session
 * that reads no table keeps its counts to itself until it ends, so that two looks while it lives would miss them.
 */
async function idle(bench: Bench, processes: number): Promise<Figures> {
  // Nobody else is to be counted.
  await Promise.all([bench.contender.close(), bench.pool.end()])
  const client = new pg.Client({ connectionString: bench.setting.connectionString })
  await client.connect()
  await sleep(LAG)
  const shorter = await live(bench, client, processes, SETTLE)
  const longer = await live(bench, client, processes, SETTLE + bench.size.seconds! * 1000)
  const rate = (longer.transactions - shorter.transactions) / (longer.seconds - shorter.seconds)
  return { value: processes * rate, connections: longer.connections }
}

async function live(
  { entrant, setting }: Bench,
  client: pg.Client,
  processes: number,
  ms: number,
): Promise<Life> {
  const before = await transactions(client)
  const workers = []
  let startedAt = 0
  while (workers.length < processes) {
    startedAt += performance.now()
    workers.push(await startIdleProcess(entrant, setting))
  }
  await sleep(ms)
  const connections = (await sessions(client)) / processes
  const seconds = (processes * performance.now() - startedAt) / 1000
  await Promise.all(workers.map((worker) => worker.stop()))
  await sleep(LAG)
  return { transactions: (await transactions(client)) - before, seconds, connections }
}

/** Its own are as many in each life. */
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
  full: { jobs: 0, seconds: 30, patience: 0, repeats: 1 },
  quick: { jobs: 0, seconds: 20, patience: 0 },
  inQuick: false,
  run: (bench) => idle(bench, processes),
}))
