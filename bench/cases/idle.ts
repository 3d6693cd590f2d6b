import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { NOTIFIED } from '../entrants.ts'
import { startIdleProcess } from '../worker-process.ts'

/** ms until everything that a start brings with it is over, and pools have closed what they opened for it. */
const SETTLE = 15_000
/** ms for the sessions of ended processes to end. */
const LAG = 2_000

/** The life of worker processes, from start to end. */
interface Life {
  readonly transactions: number
  /** The sum over all processes. */
  readonly seconds: number
  /** Per process, shortly before the end. */
  readonly connections: number
}

/**
 * Transactions a second of worker processes that have nothing to do: the difference between a longer and a shorter
 * life. A session that reads no table reports its counts only when it ends, so two looks during its life would miss
 * them.
 */
async function idle(bench: Bench, processes: number): Promise<Figures> {
  // No other session may count.
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

/** Its own transactions are equally many in each life. */
async function transactions(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    `SELECT (xact_commit + xact_rollback)::float8 AS count FROM pg_stat_database
     WHERE datname = current_database()`,
  )
  return rows[0].count
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
