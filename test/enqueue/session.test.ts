import pg from 'pg'
import { expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const queue = defineQueue('produced')

/** What is set and left in the one session of a pool. */
async function stateOf(pool: pg.Pool): Promise<unknown> {
  const { rows } = await pool.query(
    `SELECT pg_backend_pid() AS pid,
       (SELECT json_object_agg(name, setting ORDER BY name) FROM pg_settings WHERE name NOT LIKE 'plpgsql.%') AS settings,
       (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
       (SELECT count(*)::int FROM pg_listening_channels()) AS channels`,
  )
  return rows[0]
}

test('producing, administering and migrating change nothing in the sessions of the application’s pool', async () => {
  const pool = new pg.Pool({ connectionString: env.connectionString, max: 1 })
  env.later(() => pool.end())
  const before = await stateOf(pool)
  const lockstep = new Lockstep({ pool, logger: env.logger, schema: 'anew' })
  const all = async () => {
    await lockstep.migrate()
    await lockstep.enqueue(queue, { id: 'a' })
    const many = Array.from({ length: 2_000 }, (_, index) => ({ id: `many ${index}` }))
    await Promise.all([lockstep.enqueue(queue, many), lockstep.enqueue(queue, { id: 'b' })])
    const client = await pool.connect()
    await client.query('BEGIN')
    await lockstep.enqueue(queue, { id: 'c' }, { tx: client, wake: false })
    await client.query('COMMIT')
    client.release()
    await lockstep.stats()
    await lockstep.find(queue)
    await lockstep.performNow(queue, { ids: ['a'] })
    await lockstep.kill(queue, { ids: ['a', 'b'] })
    await lockstep.requeue(queue, { ids: ['a'] })
    await lockstep.deleteDead(queue, {})
    await lockstep.pause(queue)
    await lockstep.resume(queue)
    await lockstep.reshard(queue, 7)
    await lockstep.delete(queue, {})
    await lockstep.deleteQueue(queue)
  }
  await all()
  expect(await stateOf(pool)).toEqual(before)
})
