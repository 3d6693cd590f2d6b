import { expect, test } from 'vitest'
import { Consumer } from '../../src/consumer/consumer.ts'
import type { Queue } from '../../src/index.ts'
import { homeOf } from '../../src/lockstep.ts'
import { block } from '../support/worker-environment.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

const MB = 1_000_000

/** A queue with one shard and so many jobs, whose payloads have `size` characters. */
async function queueOf(jobs: number, size: number) {
  const queue = env.queue({ shards: 1 })
  await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
  await env.sql(
    `SELECT lockstep.enqueue($1, n::text, to_jsonb(repeat('x', $2::integer)), perform_in => now() - interval '1 h' + n * interval '1 s')
     FROM generate_series(1, $3::integer) n`,
    [queue.name, size, jobs],
  )
  return queue
}

/** ms that the lease of each claimed job has left. */
async function leftOf(queue: Queue): Promise<number[]> {
  const rows = await env.sql<{ left: number }>(
    `SELECT extract(epoch FROM max(l.ends_at) - clock_timestamp())::float8 * 1000 AS left
     FROM lockstep.leases l JOIN lockstep.queues q USING (queue_id), unnest(l.ids) AS i(id) WHERE q.name = $1 GROUP BY i.id`,
    [queue.name],
  )
  return rows.map(({ left }) => left)
}

test('of jobs too large for one claim, those that nobody was handed wait as before', async () => {
  const queue = await queueOf(8, 5 * MB)
  const one = consumer()
  const jobs = await one.claim({ queues: queue, count: 8, lease: 20_000 })
  expect(Math.min(...(await leftOf(queue)))).toBeGreaterThan(10_000)
  expect(jobs.map(({ id }) => id)).toEqual(['1', '2', '3', '4', '5', '6'].slice(0, jobs.length))
  expect(await Promise.all(jobs.map((job) => one.complete(job)))).toEqual(jobs.map(() => true))
  const { items } = await env.lockstep.find(queue, { by: 'performIn', limit: 100 })
  expect(items).toHaveLength(8 - jobs.length)
  for (const job of items)
    expect(job).toMatchObject({ state: 'waiting', retryCount: -1, crashes: 0, error: null })
})

test('a job comes whose payload takes longer to load than its lease', async () => {
  const queue = await queueOf(1, 8 * MB)
  expect(await consumer().claim({ queues: queue, lease: 10, wait: 4_000 })).toMatchObject([{ id: '1' }])
})

/** A consumer that takes so many ms for each payload. */
function slow(ms: number): Consumer {
  const read = (json: string) => {
    block(ms)
    return json.length
  }
  const one = new Consumer({}, homeOf(env.lockstep), read)
  env.later(() => one.stop())
  return one
}

test('a lease that was used up by loading begins anew with the answer', { tags: 'slow' }, async () => {
  const queue = await queueOf(1, 5 * MB)
  const one = slow(2_000)
  expect(await one.claim({ queues: queue, lease: 3_000 })).toHaveLength(1)
  expect(await leftOf(queue)).toEqual([expect.toSatisfy((left: number) => left > 1_200)])
})

test('with a lease of no length, a job is handed over though somebody has ended that lease', async () => {
  const queue = await queueOf(1, 10)
  const [row] = await env.sql<{ text: string }>(
    "SELECT pg_get_functiondef('lockstep.extend_leases'::regproc) AS text",
  )
  await env.sql(row!.text.replace(/\nBEGIN\n/, '$&  PERFORM lockstep.end_leases();\n'))
  env.later(() => env.pool.query(row!.text))
  expect(await slow(200).claim({ queues: queue, lease: 0 })).toHaveLength(1)
})
