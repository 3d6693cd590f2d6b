import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { hasCode } from '../../postgres/failure.ts'
import { applyUpdates } from './apply.ts'
import type { Duty } from './duty.ts'
import { sharedClock, write } from './logbook.ts'
import { millis, SHOP_SCHEMA } from './shop.ts'

const WORKERS = 5
/** ms between looks at an empty queue. */
const PAUSE = 10

/**
 * The queue that people write by hand. It takes the oldest job that no other worker has, in one transaction with its
 * effects, so that nothing is lost when a worker dies. It knows about jobs, but not about orders.
 */
export async function serveNaive({ name, connectionString }: Duty, stop: Promise<unknown>): Promise<void> {
  const stopping = new AbortController()
  void stop.then(() => stopping.abort())
  const pool = new pg.Pool({ connectionString, max: WORKERS })
  // Connects before the first job, so that the time to connect does not count.
  const clients = await Promise.all(Array.from({ length: WORKERS }, () => pool.connect()))
  write({ kind: 'ready' })
  await Promise.all(clients.map((client, index) => work(client, `${name}.${index + 1}`, stopping.signal)))
  for (const client of clients) client.release()
  await pool.end()
}

async function work(client: pg.ClientBase, name: string, stopping: AbortSignal): Promise<void> {
  for (let runs = 1; !stopping.aborted; runs += 1) {
    try {
      if (!(await workOne(client, `${name}/${runs}`))) await sleep(PAUSE)
    } catch (error) {
      await client.query('ROLLBACK')
      if (!hasCode(error, '40P01')) throw error
      write({ kind: 'deadlock' })
    }
  }
}

async function workOne(client: pg.ClientBase, run: string): Promise<boolean> {
  await client.query('BEGIN')
  const { rows } = await client.query(
    `SELECT id, payload, ${millis('statement_timestamp()')} AS taken_at, ${millis('created_at')} AS due
     FROM ${SHOP_SCHEMA}.jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`,
  )
  const job = rows[0]
  if (job) {
    const { order } = job.payload
    write({ kind: 'begin', run, orders: [order], at: sharedClock() })
    write({ kind: 'pickUp', wait: job.taken_at - job.due, rescued: false })
    try {
      await applyUpdates(client, run, [{ order, updates: [job.payload], takenAt: job.taken_at }])
    } finally {
      write({ kind: 'end', run, at: sharedClock() })
    }
    await client.query(`DELETE FROM ${SHOP_SCHEMA}.jobs WHERE id = $1`, [job.id])
  }
  await client.query('COMMIT')
  return job !== undefined
}
