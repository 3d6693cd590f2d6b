import { expect, test } from 'vitest'
import type { Batch } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { advance, drain } from '../../src/testing/index.ts'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('drain keeps to limits that are in the database, and advance lets the window of a rate pass', async () => {
  const sizes: number[] = []
  const limits = { concurrency: 2, rate: { jobs: 5, per: 3_600 } }
  const perform = (batch: Batch<unknown>) => void sizes.push(batch.size)
  const queue = env.queue({ shards: 1, batchSize: 10, limits, perform })
  const database = new Database(env.pool, 'lockstep')
  await replaceSetting(database, 'limits', [
    { queueId: await ensureQueue(database, queue.name, 1), value: limits },
  ])
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 8 }, (_, n) => ({ id: `id-${n}` })),
  )
  expect(await drain(env.lockstep, queue)).toMatchObject({ completed: 5 })
  expect(await drain(env.lockstep, queue)).toMatchObject({ completed: 0 })
  await advance(env.lockstep, queue, 3_700_000)
  expect(await drain(env.lockstep, queue)).toMatchObject({ completed: 3 })
  expect(sizes).toEqual([2, 2, 1, 2, 1])
})

test('advance lets time pass for starts that are as far apart, in whatever order they are stored', async () => {
  const limits = { rate: { jobs: 5, per: 3_600 } }
  const queue = env.queue({ shards: 1, limits })
  const queueId = await ensureQueue(new Database(env.pool, 'lockstep'), queue.name, 1)
  await env.sql(
    `INSERT INTO lockstep.starts (queue_id, tenant, clock, at, total, gone)
     SELECT $1, '', 0, date_trunc('hour', clock_timestamp()) - n * interval '1 hour', n, 0 FROM generate_series(0, 9) n`,
    [queueId],
  )
  const hours = () =>
    env.sql<{ hours: number; total: number }>(
      `SELECT (extract(epoch FROM date_trunc('hour', clock_timestamp()) - at) / 3600)::int AS hours, total
       FROM lockstep.starts WHERE queue_id = $1 ORDER BY 1`,
      [queueId],
    )
  const before = await hours()
  await advance(env.lockstep, queue, 3_600_000)
  expect(await hours()).toEqual(before.map((one) => ({ ...one, hours: one.hours + 1 })))
})

test('drain finds what may go behind hundreds of jobs over a limit', async () => {
  const ran: string[] = []
  const limits = { tenant: { rate: { jobs: 1, per: 3_600 } } }
  const perform = (batch: Batch<unknown>) => void ran.push(...batch.keys())
  const queue = env.queue({ shards: 1, limits, perform })
  const database = new Database(env.pool, 'lockstep')
  await replaceSetting(database, 'limits', [
    { queueId: await ensureQueue(database, queue.name, 1), value: limits },
  ])
  const jobs = Array.from({ length: 600 }, (_, n) => ({ id: `a${n}`, tenant: 'a', lane: 0, performIn: n }))
  await env.lockstep.enqueue(queue, [...jobs, { id: 'b', tenant: 'b', lane: 0, performIn: 600 }])
  await drain(env.lockstep, queue)
  expect(ran).toEqual(['a0', 'b'])
})

test('drain with `future` lets the time of rates pass, too', async () => {
  const ran: string[] = []
  const limits = { rate: { jobs: 2, per: 60 } }
  const perform = (batch: Batch<unknown>) => void ran.push(...batch.keys())
  const queue = env.queue({ shards: 4, limits, perform })
  const database = new Database(env.pool, 'lockstep')
  await replaceSetting(database, 'limits', [
    { queueId: await ensureQueue(database, queue.name, 4), value: limits },
  ])
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 7 }, (_, n) => ({ id: `id-${n}` })),
  )
  expect(await drain(env.lockstep, queue, { future: true })).toMatchObject({ completed: 7 })
  expect(ran).toHaveLength(7)
})
