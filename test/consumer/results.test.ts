import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

test('a consumer completes with a result, for whoever waits', async () => {
  const one = consumer()
  const queue = env.queue({})
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  const waiting = env.lockstep.result(queue, id, round, { wait: 10_000 })
  const [job] = await one.claim({ queues: queue, wait: 1_000 })
  expect(await one.complete(job!, { result: { total: 3 } })).toBe(true)
  expect(await waiting).toMatchObject({ state: 'completed', result: { total: 3 } })
  expect(await env.sql('SELECT FROM lockstep.leases')).toEqual([])
})

test('P6 a late one changes nothing, leaves no result, and says so', async () => {
  const one = consumer()
  const queue = env.queue({})
  const { round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  const [late] = await one.claim({ queues: queue, lease: 0 })
  const [job] = await one.claim({ queues: queue, wait: 5_000 })
  expect(await one.complete(late!, { result: 'late' })).toBe(false)
  expect(await env.lockstep.result(queue, 'a', round)).toMatchObject({ state: 'working' })
  expect(await one.complete(job!, { result: 'right' })).toBe(true)
  expect(await one.complete(job!, { result: 'again' })).toBe(false)
  expect(await env.lockstep.result(queue, 'a', round)).toMatchObject({ result: 'right' })
})

test('many go together, each with its own, those with none among them', async () => {
  const one = consumer()
  const queue = env.queue({})
  const pushed = await Promise.all(
    Array.from({ length: 120 }, (_, n) => env.lockstep.enqueueForResult(queue, { id: `${n}` })),
  )
  const jobs = await one.claim({ queues: queue, count: 120, wait: 1_000 })
  expect(jobs).toHaveLength(120)
  const settled = jobs.map((job) => one.complete(job, Number(job.id) % 2 ? { result: Number(job.id) } : {}))
  expect(new Set(await Promise.all(settled))).toEqual(new Set([true]))
  for (const { id, round } of pushed)
    expect(await env.lockstep.result(queue, id, round)).toEqual(
      Number(id) % 2
        ? { state: 'completed', result: Number(id), endedAt: expect.any(Date) }
        : { state: 'gone' },
    )
})

test('it waits for the transaction of a producer, and has the result when it is stored', async () => {
  const one = consumer()
  const queue = env.queue({})
  const { round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  const [job] = await one.claim({ queues: queue, wait: 1_000 })
  const session = await env.session()
  await session.query('BEGIN')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: session })
  const completing = one.complete(job!, { result: 1 })
  expect(await env.lockstep.result(queue, 'a', round, { wait: 200 })).toMatchObject({ state: 'working' })
  await session.query('COMMIT')
  expect(await completing).toBe(true)
  expect(await env.lockstep.result(queue, 'a', round)).toMatchObject({ result: 1 })
})

test('of a claim that left payloads behind, no result is kept', async () => {
  const queue = defineQueue('cut', { maxPayloads: 1, keepResult: 60 })
  const one = consumer({ queues: [queue] })
  const first = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 1, score: 1 })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2, score: 2 })
  for (const result of [1, 2]) {
    const [job] = await one.claim({ queues: queue, wait: 1_000 })
    expect(await one.complete(job!, { result })).toBe(true)
  }
  expect(await env.lockstep.result(queue, 'a', first.round)).toMatchObject({ result: 2 })
  const [row] = await env.sql(
    'SELECT count(*)::int, max(extract(epoch FROM keep_until - ended_at))::int AS kept FROM lockstep.results WHERE job_id = $1 AND result = $2',
    ['a', '2'],
  )
  expect(row).toEqual({ count: 1, kept: 60 })
})

test('bad input is refused, and the claim stands', async () => {
  const one = consumer()
  const queue = env.queue({})
  await env.lockstep.enqueue(queue, { id: 'a' })
  const [job] = await one.claim({ queues: queue, wait: 1_000 })
  for (const [options, code] of [
    [{ result: 1n }, 'LOCKSTEP_BAD_RESULT'],
    [{ result: Promise.resolve(1) }, 'LOCKSTEP_BAD_RESULT'],
    [{ result: 1, keepResult: 0 }, 'LOCKSTEP_BAD_OPTION'],
    [{ results: 1 }, 'LOCKSTEP_BAD_OPTION'],
  ] as const)
    await expect((async () => one.complete(job!, options as never))()).rejects.toMatchObject({ code })
  expect(await one.complete(job!)).toBe(true)
})
