import { expect, test, vi } from 'vitest'
import { Discard, Snooze } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { eventually } from '../support/worker-environment.ts'
import { claimed, useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

async function claimOne(options: { lease?: number; maxRetryCount?: number } = {}) {
  const queue = env.queue({ maxRetryCount: options.maxRetryCount ?? 3 })
  const one = consumer({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [job] = await one.claim({ queues: queue, lease: options.lease ?? 30_000 })
  return { one, queue, job: job! }
}

test('a claim is settled by its queue, id and fence, in any consumer; later, it’s lost', async () => {
  const { queue, job } = await claimOne()
  const other = consumer()
  const claim = { queue: queue.name, id: 'a', fence: job.fence }
  expect(await other.complete(claim)).toBe(true)
  expect(await env.jobs(queue)).toBe(0)
  for (const again of [
    other.complete(claim),
    other.fail(claim, 'no'),
    other.release(claim),
    other.extend(claim),
  ])
    expect(await again).toBe(false)
  expect(await env.sql('SELECT FROM lockstep.leases')).toEqual([])
})

test('P6: a claim that was taken over can’t change anything', async () => {
  const { one, queue, job } = await claimOne({ lease: 50 })
  const [next] = await one.claim({ queues: queue, wait: 5_000 })
  expect(next).toMatchObject({ id: 'a', retryCount: 0, crashes: 0 })
  expect(next!.fence).toBeGreaterThan(job.fence)
  expect(await one.complete(job)).toBe(false)
  expect(await one.extend(job)).toBe(false)
  expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: 0, retry_count: 0 })
  expect(await one.complete(next!)).toBe(true)
})

test('what can be no claim is refused', async () => {
  const one = consumer()
  for (const wrong of [{ id: '\u0000' }, { id: '\ud800' }, { queue: '\u0000' }]) {
    const claim = { queue: 'a', id: 'a', fence: 1, ...wrong }
    const refused = { code: 'LOCKSTEP_BAD_OPTION' }
    await expect(one.complete(claim)).rejects.toMatchObject(refused)
    await expect(one.release(claim)).rejects.toMatchObject(refused)
    await expect(one.extend(claim)).rejects.toMatchObject(refused)
    await expect(one.fail(claim, 'x')).rejects.toMatchObject(refused)
  }
})

test('a lease that ends counts as a failure, and the job waits again within a second', async () => {
  const { one, queue, job } = await claimOne({ lease: 300 })
  const startedAt = performance.now()
  const [next] = await one.claim({ queues: queue, wait: 10_000 })
  const waited = performance.now() - startedAt
  expect(waited).toBeGreaterThan(200)
  expect(waited).toBeLessThan(1_300)
  expect(next).toMatchObject({ id: 'a', retryCount: 0, error: 'the lease ended before the job was settled' })
  const { items } = await env.lockstep.find(queue, { ids: ['a'] }, { attempts: true })
  expect(items[0]!.attempts).toMatchObject([{ kind: 'lease', retryCount: 0 }])
  expect(job.fence).toBeLessThan(next!.fence)
})

test('after the last retry, the payload of a lease that ends goes to the morgue', async () => {
  const { queue } = await claimOne({ lease: 50, maxRetryCount: 0 })
  await eventually(async () => {
    const { items } = await env.lockstep.findDead(queue)
    expect(items).toMatchObject([
      { id: 'a', payload: 1, error: 'the lease ended before the job was settled' },
    ])
  })
  expect(await env.jobs(queue)).toBe(0)
})

test('a lease that is extended ends later, and never earlier', async () => {
  const { one, queue, job } = await claimOne({ lease: 400 })
  expect(await one.extend(job, 1_500)).toBe(true)
  expect(await one.extend(job, 0)).toBe(true)
  const startedAt = performance.now()
  const [next] = await one.claim({ queues: queue, wait: 10_000 })
  expect(performance.now() - startedAt).toBeGreaterThan(1_200)
  expect(next!.retryCount).toBe(0)
})

test('leases outlive the consumer that gave them, and others end them', async () => {
  const { one, queue } = await claimOne({ lease: 3_000 })
  await one.stop()
  const other = consumer()
  expect(await other.claim({ queues: queue, wait: 100 })).toEqual([])
  expect(await claimed(other, { queues: queue, wait: 10_000 })).toEqual(['a: 1'])
})

test('with no consumer left, a worker ends them', async () => {
  const performed: number[] = []
  const queue = env.queue({
    perform(_, { jobs }) {
      performed.push(jobs.get('a')!.retryCount)
    },
  })
  const one = consumer({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  await one.claim({ queues: queue, lease: 100 })
  await one.stop()
  await env.work({ queues: [queue] })
  await eventually(() => expect(performed).toEqual([0]))
})

test('R6, R7: fail counts, and the payload dies after the last retry', async () => {
  const queue = env.queue({ maxRetryCount: 1, retryIn: () => 600 })
  const one = consumer({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [first] = await one.claim({ queues: queue })
  expect(await one.fail(first!, new Error('no'), { retryIn: 0.05 })).toBe(true)
  const [second] = await one.claim({ queues: queue, wait: 5_000 })
  expect(second).toMatchObject({ retryCount: 0, error: expect.stringContaining('Error: no') })
  expect(await one.fail(second!, 'not again')).toBe(true)
  const { items } = await env.lockstep.findDead(queue)
  expect(items).toMatchObject([{ id: 'a', error: 'not again' }])
})

test('what a handler may throw may be told to fail', async () => {
  const queue = env.queue({})
  const one = consumer({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  const [first] = await one.claim({ queues: queue })
  expect(await one.fail(first!, new Snooze(0.05))).toBe(true)
  const [second] = await one.claim({ queues: queue, wait: 5_000 })
  expect(second).toMatchObject({ retryCount: -1, error: null })
  expect(await one.fail(second!, new Discard('bad'))).toBe(true)
  expect((await env.lockstep.findDead(queue)).items).toMatchObject([{ id: 'a' }])
})

test('release gives a job back as it was, to whoever waits for it', async () => {
  const { one, queue, job } = await claimOne()
  const waiting = consumer().claim({ queues: queue, wait: 10_000 })
  await env.idle(queue)
  expect(await one.release(job)).toBe(true)
  expect(await waiting).toMatchObject([{ id: 'a', retryCount: -1, crashes: 0, error: null }])
})

test('P7: a producer’s open transaction on the id holds up its completion, and nothing else', async () => {
  const { one, queue, job } = await claimOne({ lease: 400 })
  const session = await env.session()
  await session.query('BEGIN')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: session })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 3 })
  const [other] = await one.claim({ queues: queue, wait: 5_000 })
  expect(other!.id).toBe('b')
  expect(await one.complete(other!)).toBe(true)
  expect(await one.extend(job, 30_000)).toBe(true)
  const completing = one.complete(job)
  await session.query('COMMIT')
  expect(await completing).toBe(true)
  expect(await claimed(one, { queues: queue, wait: 5_000 })).toEqual(['a: 2'])
})

test('a lease whose row a producer holds ends when that has committed', async () => {
  const { one, queue } = await claimOne({ lease: 100 })
  const session = await env.session()
  await session.query('BEGIN')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: session })
  expect(await one.claim({ queues: queue, wait: 800 })).toEqual([])
  await session.query('COMMIT')
  expect(await claimed(one, { queues: queue, wait: 5_000 })).toEqual(['a: 1 2'])
})

test('its jobs are seen in work, and its process is none', async () => {
  const { queue, job } = await claimOne()
  const { items } = await env.lockstep.find(queue, { ids: ['a'] })
  expect(items).toMatchObject([{ id: 'a', state: 'working', processId: 0, fence: job.fence }])
  const left = items[0]!.leaseEndsAt!.getTime() - items[0]!.claimedAt!.getTime()
  expect(left).toBeGreaterThan(29_900)
  expect(left).toBeLessThan(31_000)
  const [shown] = await env.sql('SELECT * FROM lockstep.working WHERE queue = $1', [queue.name])
  expect(shown).toMatchObject({ id: 'a', process_id: 0, host: null, lease_ends_at: expect.any(Date) })
  expect(await env.lockstep.processes()).toEqual([])
  const { queues } = await env.lockstep.stats()
  expect(queues.find((one) => one.queue === queue.name)).toMatchObject({ working: 1, waiting: 0 })
  for await (const _ of env.lockstep.kill(queue, {}));
  expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: 0 })
})

test('a job that says how often it may be handed over dies after that, in a claim with others that say something else', async () => {
  const one = consumer({ triesHeader: 'tries' })
  const queue = env.queue({ shards: 1, maxRetryCount: 5 })
  await env.lockstep.enqueue(queue, [
    { id: 'once', headers: { tries: 1 } },
    { id: 'twice', headers: { tries: 2 } },
    { id: 'silent' },
  ])
  const jobs = await one.claim({ queues: queue, count: 3, lease: 60_000 })
  // An extension keeps to what each job says.
  await Promise.all(jobs.map((job) => one.extend(job, 100)))
  await Promise.all(jobs.map((job) => one.fail(job, new Error('no'), { retryIn: 60 })))
  const { items } = await env.lockstep.find(queue, {})
  expect(items.map(({ id }) => id).sort()).toEqual(['silent', 'twice'])
  expect((await env.lockstep.findDead(queue, {})).items).toMatchObject([{ id: 'once' }])
})

test('its lease ends in the same way', async () => {
  const one = consumer({ triesHeader: 'tries' })
  const queue = env.queue({ shards: 1, maxRetryCount: 5 })
  await env.lockstep.enqueue(queue, [
    { id: 'once', headers: { tries: 1 } },
    { id: 'silent', headers: { tries: 'many' } },
  ])
  const jobs = await one.claim({ queues: queue, count: 2, lease: 60_000 })
  await env.pool.query("UPDATE lockstep.leases SET ends_at = clock_timestamp() - interval '1 s'")
  await eventually(async () => expect((await env.lockstep.findDead(queue, {})).items).toHaveLength(1))
  expect(await one.complete(jobs[0]!)).toBe(false)
  expect((await env.lockstep.find(queue, {})).items).toMatchObject([{ id: 'silent', retryCount: 0 }])
})

test('claims that fail at once go to the database together', async () => {
  const queue = env.queue({})
  const one = consumer()
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 200 }, (_, n) => ({ id: n })),
  )
  const jobs = await one.claim({ queues: queue, count: 200 })
  const calls = [vi.spyOn(Database.prototype, 'query'), vi.spyOn(Database.prototype, 'alone')]
  const [late, ...held] = jobs
  await one.release(late!)
  const failed = await Promise.all([late!, ...held].map((job) => one.fail(job, 'no', { retryIn: 60 })))
  const count = calls.reduce((sum, { mock }) => sum + mock.calls.length, 0)
  vi.restoreAllMocks()
  expect(failed).toEqual(jobs.map((job) => job !== late))
  expect(count).toBeLessThan(50)
})
