import { expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { compare } from '../../src/store/comparison.ts'
import { endOutlived } from '../../src/store/process.ts'
import { Zombies } from '../../src/worker/maintenance/zombies.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const REBALANCE_INTERVAL = 500

test('P8: the session of a process that is gone is ended once it was seen for two rebalance intervals, whoever looked how often', async () => {
  const database = new Database(env.pool, 'lockstep')
  const session = await env.session()
  await session.query(`SELECT pg_advisory_lock('lockstep.processes'::regclass::oid::integer, 1234567)`)
  const look = () => compare(database, { names: [], processId: 0, shards: [] })
  const seen = await look()
  const gone = { ...seen, outlived: [] }
  expect(seen.outlived).toMatchObject([{ processId: 1_234_567 }])

  const zombies = new Zombies(env.logger, REBALANCE_INTERVAL)
  for (const at of [0, 1, 999]) {
    zombies.see(seen, at)
    expect([zombies.isDue(), zombies.nextSight()]).toEqual([false, REBALANCE_INTERVAL])
  }
  // That one has ended, and this is another.
  zombies.see(gone, 1_000)
  expect([zombies.isDue(), zombies.nextSight()]).toEqual([false, Number.POSITIVE_INFINITY])
  zombies.see(seen, 1_001)
  expect(zombies.isDue()).toBe(false)

  zombies.see(seen, 2_001)
  expect([zombies.isDue(), zombies.nextSight()]).toEqual([true, Number.POSITIVE_INFINITY])
  await zombies.run(database)
  expect(zombies.isDue()).toBe(false)
  await eventually(async () => expect((await look()).outlived).toEqual([]))
})

test('a session that has become another’s since it was seen is left alone', async () => {
  const database = new Database(env.pool, 'lockstep')
  const session = await env.session()
  const { rows } = await session.query('SELECT pg_backend_pid() AS pid')
  await endOutlived(database, { pid: rows[0].pid, processId: 1_234_567 })
  await session.query(`SELECT pg_advisory_lock('lockstep.processes'::regclass::oid::integer, 7654321)`)
  await endOutlived(database, { pid: rows[0].pid, processId: 1_234_567 })
  await session.query('SELECT 1')
})
