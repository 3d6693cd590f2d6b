import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { hasPgBouncer, startPgBouncer } from '../../support/pgbouncer.ts'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'
import { POOLED } from '../ground.ts'

/** ms that a transaction stays open after a push. */
const OPEN = 20
/** Sessions of an application behind a pooler. */
const SESSIONS = 4

/** One transaction after the other locks the job's row nearly all the time. */
const busyId: Fault = {
  name: 'id pushed without pause',
  weight: 3,
  async inject(cluster) {
    const id = cluster.name('busy')
    const until = performance.now() + 2 * LEASE
    for (let n = 1; performance.now() < until; )
      n = await pushFrom(cluster, id, n, until).catch(() => n + 1_000)
  },
}

/**
 * Resolves to the next number. If the session breaks, it is unknown how far it came, so the next numbers are far
 * higher.
 */
async function pushFrom(cluster: Cluster, id: string, first: number, until: number): Promise<number> {
  const session = await cluster.session()
  try {
    let n = first
    for (; performance.now() < until; n += 1) {
      await session.query('BEGIN')
      await cluster.pushIn(session, 'plain', [id], n)
      await sleep(OPEN)
      await session.query('COMMIT')
    }
    return n
  } finally {
    await session.end().catch(() => {})
  }
}

/** MB of the worker's heap. Loading from source takes thirty of them. */
const SMALL_HEAP = 96
/** Bytes of a payload. */
const LOAD = 2 * 2 ** 20
const LOADS = 50

/** All payloads of the id together would be the end of the worker, which has hardly any memory. */
const hugeId: Fault = {
  name: 'id larger than a worker’s memory',
  weight: 2,
  async inject(cluster) {
    const { connectionString } = cluster.server
    // Another one each time: a worker that starts while the server is down ends.
    const starting = cluster.patiently(() => {
      const worker = cluster.createWorker(connectionString, {}, [`--max-old-space-size=${SMALL_HEAP}`])
      cluster.later(() => worker.kill())
      return worker.ready()
    })
    const id = cluster.name('huge')
    await cluster.patiently(() => pushLoads(cluster, id))
    const worker = await starting
    await cluster.until(`${id} processed`, async () => {
      const rows = await cluster.sql('SELECT FROM lockstep.jobs WHERE id = $1', [id])
      return rows.length === 0
    })
    await worker.stop()
  },
}

/** Every other load takes little space where it is stored. */
function loadOf(n: number): string {
  return n % 2 === 0 ? 'load'.repeat(LOAD / 4) : randomBytes(LOAD / 2).toString('hex')
}

async function pushLoads(cluster: Cluster, id: string): Promise<void> {
  const [row] = await cluster.sql<{ last: number }>(
    'SELECT coalesce(max(n), 0)::integer AS last FROM sent WHERE id = $1',
    [id],
  )
  const session = await cluster.session()
  try {
    for (let n = row!.last + 1; n <= LOADS; n += 1) {
      await session.query('BEGIN')
      await cluster.pushIn(session, 'plain', [id], n, loadOf(n))
      await session.query('COMMIT')
    }
  } finally {
    await session.end().catch(() => {})
  }
}

/** The worker must not affect the application's transactions, which keep their isolation. */
const sharedPooler: Fault = {
  name: 'pooled user with another isolation',
  weight: 2,
  possible: hasPgBouncer,
  async inject(cluster) {
    const { connectionString } = cluster.server
    const url = new URL(connectionString)
    url.username = POOLED
    const bouncer = await startPgBouncer(url.href)
    const seen = new Set<string>()
    try {
      const worker = cluster.createWorker(bouncer.connectionString, { directUrl: connectionString })
      cluster.later(() => worker.kill())
      await cluster.patiently(() => watchIsolation(bouncer.connectionString, LEASE, seen))
      await worker.stop()
      await cluster.patiently(() => watchIsolation(bouncer.connectionString, LEASE / 4, seen))
    } finally {
      await bouncer.stop()
    }
    seen.delete('serializable')
    if (seen.size > 0) throw new Error(`transactions of the application ran at ${[...seen]}`)
  },
}

async function watchIsolation(connectionString: string, duration: number, seen: Set<string>): Promise<void> {
  const pool = new pg.Pool({ connectionString, max: SESSIONS })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  try {
    for (const until = performance.now() + duration; performance.now() < until; ) {
      await Promise.all(Array.from({ length: SESSIONS }, () => readIsolation(pool, seen)))
      await sleep(OPEN)
    }
  } finally {
    await pool.end()
  }
}

/** Like an application that says nothing about isolation. */
async function readIsolation(pool: pg.Pool, seen: Set<string>): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const { rows } = await client.query('SHOW transaction_isolation')
    await client.query('COMMIT')
    seen.add(rows[0].transaction_isolation)
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

export const applicationFaults: readonly Fault[] = [busyId, hugeId, sharedPooler]
