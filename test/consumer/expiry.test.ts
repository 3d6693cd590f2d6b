import { expect, test } from 'vitest'
import { eventually } from '../support/worker-environment.ts'
import { claimed, useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()
const inAnHour = () => Date.now() + 3_600_000

const expire = (id: string, payload: unknown) =>
  Promise.all(
    [
      ['jobs', 'id'],
      ['payloads', 'job_id'],
    ].map(([table, column]) =>
      env.sql(
        `UPDATE lockstep.${table} SET expires_in = now() - interval '1 minute' WHERE ${column} = $1 AND payload = $2`,
        [id, JSON.stringify(payload)],
      ),
    ),
  )

const statsOf = async (name: string) =>
  (await env.lockstep.stats()).queues.find(({ queue }) => queue === name)

test('R17 a claim brings what has not expired; jobs of which nothing is left are gone, and others come in their place', async () => {
  const one = consumer()
  const queue = env.queue({ shards: 1 })
  const performIn = Date.now() - 60_000
  await env.lockstep.enqueue(queue, [
    { id: 'all', payload: 1, performIn, expiresIn: inAnHour() },
    { id: 'some', payload: 1, score: 1, performIn: performIn + 1, expiresIn: inAnHour() },
    { id: 'some', payload: 2, score: 2 },
    { id: 'yet', payload: 3, performIn: performIn + 2, expiresIn: inAnHour() },
  ])
  for (const id of ['all', 'some']) await expire(id, 1)
  const [some] = await one.claim({ queues: queue })
  expect(some).toMatchObject({ id: 'some', payloads: [2], scores: [2] })
  expect(await one.complete(some!)).toBe(true)
  expect(await claimed(one, { queues: queue })).toEqual(['yet: 3'])
  await eventually(async () => expect(await env.job(queue, 'all')).toBeUndefined())
  expect(await env.job(queue, 'some')).toBeUndefined()
  await one.stop()
  expect(await statsOf(queue.name)).toMatchObject({ processed: 1, failed: 0, expired: 2 })
})

test('R17 a consumer removes what has expired of jobs that nobody claims, though no worker runs', async () => {
  const one = consumer()
  const [queue, other] = [env.queue({}), env.queue({})]
  await env.lockstep.enqueue(queue, { id: 'gone', expiresIn: Date.now() - 1 })
  expect(await one.claim({ queues: other })).toEqual([])
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  await one.stop()
  expect(await statsOf(queue.name)).toMatchObject({ processed: 0, expired: 1 })
})
