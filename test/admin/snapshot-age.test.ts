import pg from 'pg'
import { expect, test } from 'vitest'
import { createDatabase } from '../support/database.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** The server's time between two of its statements, in ms. */
async function timed(client: pg.Client, begin: string): Promise<() => Promise<number>> {
  await client.query(begin)
  const [from] = await env.sql<{ at: number }>('SELECT extract(epoch FROM clock_timestamp())::float8 AS at')
  return async () => {
    const [to] = await env.sql<{ at: number }>('SELECT extract(epoch FROM clock_timestamp())::float8 AS at')
    return (to!.at - from!.at) * 1_000
  }
}

/** Autovacuum may look around for a moment. */
const nothingHeldBack = () => eventually(async () => expect(await env.lockstep.snapshotAge()).toBe(0))

test.each([
  ['a snapshot', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1'],
  [
    'an open transaction that has written',
    'BEGIN; CREATE TABLE IF NOT EXISTS written (); SELECT txid_current()',
  ],
])('the age of %s shows until it ends', async (_, begin) => {
  const session = await env.session()
  const passed = await timed(session, begin)
  const other = await env.session()
  // Younger.
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  const least = await passed()
  const age = await env.lockstep.snapshotAge()
  expect(age).toBeGreaterThanOrEqual(least)
  await session.query('ROLLBACK')
  await other.query('ROLLBACK')
  await nothingHeldBack()
})

test('the oldest one counts, even if the snapshot of another names an older transaction elsewhere', async () => {
  const database = await createDatabase()
  env.later(() => database.drop())
  const elsewhere = new pg.Client({ connectionString: database.connectionString })
  await elsewhere.connect()
  env.later(() => elsewhere.end())
  await elsewhere.query('BEGIN; SELECT txid_current()')
  const writer = await env.session()
  const passed = await timed(writer, 'BEGIN; SELECT txid_current()')
  const reader = await env.session()
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  const least = await passed()
  expect(await env.lockstep.snapshotAge()).toBeGreaterThanOrEqual(least)
  await writer.query('COMMIT')
  expect(await env.lockstep.snapshotAge()).toBeLessThan(await passed())
  await reader.query('COMMIT')
  await nothingHeldBack()
})

test('an open transaction without a snapshot holds back nothing, nor does one of another database', async () => {
  const idle = await env.session()
  await idle.query('BEGIN; SELECT 1')
  const database = await createDatabase()
  env.later(() => database.drop())
  const elsewhere = new pg.Client({ connectionString: database.connectionString })
  await elsewhere.connect()
  env.later(() => elsewhere.end())
  await elsewhere.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  await nothingHeldBack()
})

test('the snapshots of VACUUM itself hold back nothing', async () => {
  await env.sql(
    'CREATE TABLE large WITH (autovacuum_enabled = off) AS SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 5000) g',
  )
  const session = await env.session()
  await session.query('SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1')
  const [{ pid }] = (await session.query('SELECT pg_backend_pid() AS pid')).rows
  const vacuum = session.query('VACUUM (FREEZE) large').catch((error: Error) => error.message)
  await eventually(async () => {
    const seen = await env.sql(
      `SELECT FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid)
       WHERE pid = $1 AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)`,
      [pid],
    )
    expect(seen).toHaveLength(1)
  })
  await nothingHeldBack()
  await env.sql('SELECT pg_cancel_backend($1)', [pid])
  expect(await vacuum).toContain('canceling statement')
})
