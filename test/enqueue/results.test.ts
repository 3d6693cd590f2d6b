import { expect, test } from 'vitest'
import { useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const ROUND = '1.1.0a1b2c3d4e5f6071'

test('who asks for what can’t be does not fail those who ask at once', async () => {
  const queue = env.queue({ keepResult: 60 })
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  const ask = (name: string, of: string) => env.lockstep.result(name, of, ROUND)
  const settled = await Promise.allSettled([
    env.lockstep.result(queue, id, round),
    ask('no such queue', 'a'),
    ask('queue\u0000', 'a'),
    ask(queue.name, 'a\u0000'),
    ask(queue.name, '\ud800'),
    env.lockstep.result(queue, id, round),
  ])
  expect(settled.map((one) => (one.status === 'fulfilled' ? one.value.state : one.reason.code))).toEqual([
    'waiting',
    'LOCKSTEP_UNKNOWN_QUEUE',
    'LOCKSTEP_BAD_OPTION',
    'LOCKSTEP_BAD_OPTION',
    'LOCKSTEP_BAD_OPTION',
    'waiting',
  ])
})

test('a wait outlasts a database that can’t be reached, and ends with what was seen last', async () => {
  const { network, lockstep } = await env.distant()
  const queue = env.queue({ keepResult: 60, perform: () => 'done' })
  const { id, round } = await lockstep.enqueueForResult(queue, { id: 'a' })
  const waiting = lockstep.result(queue, id, round, { wait: 20_000 })
  const short = lockstep.result(queue, id, round, { wait: 100 })
  expect(await lockstep.result(queue, id, round)).toMatchObject({ state: 'waiting' })
  network.cut()
  expect(await short).toMatchObject({ state: 'waiting' })
  await expect(lockstep.result(queue, id, round, { wait: 100 })).rejects.toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
  })
  await env.work({ queues: [queue] })
  network.restore()
  expect(await waiting).toMatchObject({ state: 'completed', result: 'done' })
})

test('R17 a job of which all has expired is gone before it is removed, and waits again once something comes', async () => {
  const queue = env.queue({})
  const past = { performIn: 1_000, expiresIn: 2_000 }
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 1, ...past })
  const state = async () => (await env.lockstep.result(queue, id, round)).state
  expect(await state()).toBe('gone')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2, ...past })
  expect(await state()).toBe('gone')
  expect(await env.jobs(queue)).toBe(1)
  await env.lockstep.enqueue(queue, { id: 'a', payload: 3 })
  expect(await state()).toBe('waiting')
  // What the row carries is alive, and another payload is not.
  const other = await env.lockstep.enqueueForResult(queue, { id: 'b', payload: 1 })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 2, ...past })
  expect(await env.lockstep.result(queue, 'b', other.round)).toMatchObject({
    state: 'waiting',
    retryCount: -1,
  })
})

test('R17 what was handed over in time is in work, also once it has expired', async () => {
  const queue = env.queue({})
  const expiresIn = Date.now() + 600_000
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a', expiresIn })
  const consumer = env.lockstep.createConsumer()
  env.later(() => consumer.stop())
  expect(await consumer.claim({ queues: queue })).toHaveLength(1)
  await env.sql(
    `UPDATE lockstep.jobs SET expires_in = clock_timestamp() - interval '1 s'
     WHERE id = 'a' AND queue_id = (SELECT queue_id FROM lockstep.queues WHERE name = $1)`,
    [queue.name],
  )
  expect(await env.lockstep.result(queue, id, round)).toMatchObject({ state: 'working' })
})
