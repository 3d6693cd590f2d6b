import pg from 'pg'
import { expect, test } from 'vitest'
import type { Setting } from '../../bench/contender.ts'
import { openLockstep } from '../../bench/contenders/lockstep.ts'
import { openNeighbours } from '../../bench/contenders/neighbours.ts'
import { failing } from '../../bench/measure/handler.ts'
import { Latencies } from '../../bench/measure/latencies.ts'
import { createDatabase } from '../support/database.ts'

async function withDatabase(work: (setting: Setting, pool: pg.Pool) => Promise<void>): Promise<void> {
  const { connectionString, drop } = await createDatabase()
  const pool = new pg.Pool({ connectionString })
  pool.on('error', () => {})
  const setting: Setting = {
    connectionString,
    redisUrl: undefined,
    configuration: 'default',
    ordering: 'any',
    concurrency: 2,
    connections: 2,
    retryIn: undefined,
    tuning: {},
  }
  try {
    await work(setting, pool)
  } finally {
    await pool.end()
    await drop()
  }
}

test('a queue has as many shards as a case asks for, where it is there too', async () => {
  await withDatabase(async (setting, pool) => {
    for (const shards of [3, 7]) {
      const contender = openLockstep({ ...setting, tuning: { shards } })
      await contender.setUp()
      await contender.close()
      const { rows } = await pool.query('SELECT shards FROM lockstep.queues')
      expect(rows).toEqual([{ shards }])
    }
  })
})

test('a job that is to fail does, once, and waits as long as the case says', async () => {
  await withDatabase(async (setting, pool) => {
    const contender = openLockstep({ ...setting, retryIn: 3_600 })
    await contender.setUp()
    await contender.enqueue([{ key: 'job', seq: 0 }])
    const latencies = new Latencies(1)
    latencies.begins(0)
    await contender.work(failing(latencies))
    await latencies.finish.reached
    await contender.close()
    const { rows } = await pool.query(
      `SELECT retry_count, perform_in > now() + interval '50 minutes' AS later FROM lockstep.jobs`,
    )
    expect(rows).toEqual([{ retry_count: 0, later: true }])
    expect(latencies.figures().undone).toBe(0)
  })
})

test('of several queues a job goes to that which its key names', async () => {
  await withDatabase(async (setting, pool) => {
    const neighbours = openNeighbours(setting, ['one', 'other', 'empty'])
    await neighbours.setUp()
    const keys = ['one', 'other', 'one']
    await neighbours.enqueue(keys.map((key, seq) => ({ key, seq })))
    await neighbours.close()
    const { rows } = await pool.query(
      'SELECT name, count(*)::integer FROM lockstep.jobs JOIN lockstep.queues USING (queue_id) GROUP BY name ORDER BY 1',
    )
    expect(rows).toEqual([
      { name: 'one', count: 2 },
      { name: 'other', count: 1 },
    ])
  })
})
