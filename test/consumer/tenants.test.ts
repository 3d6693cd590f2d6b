import { expect, test } from 'vitest'
import { othersAvoid, pileUp } from '../support/newcomers.ts'
import { eventually } from '../support/worker-environment.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

test('a consumer tells producers where jobs of tenants wait: others share no such lane', {
  tags: 'slow',
}, async () => {
  const queue = env.queue({ shards: 2 })
  const backlog = await pileUp(env, queue)
  await consumer().claim({ queues: queue, count: 5 })
  await othersAvoid(env, queue, backlog)
})

test('tenants take turns: a job behind the backlog of another is claimed as soon as it is known', async () => {
  const queue = env.queue({ shards: 4 })
  const jobs = Array.from({ length: 500 }, (_, n) => ({ id: `large ${n}`, tenant: 'large' }))
  await env.lockstep.enqueue(queue, jobs)
  const one = consumer()
  await one.claim({ queues: queue, count: 20 })
  await env.lockstep.enqueue(queue, { id: 'small', tenant: 'small' })
  const claimed: string[] = []
  await eventually(async () => {
    const jobs = await one.claim({ queues: queue, count: 5, wait: 1_000 })
    claimed.push(...jobs.map(({ id }) => id))
    expect(claimed).toContain('small')
  })
  expect(claimed.length).toBeLessThan(200)
})

test('tenants and jobs of nobody in particular get as much as each other, by the job, in claims of any size', async () => {
  const queue = env.queue({ shards: 4 })
  for (const tenant of ['a', 'b', ''])
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 300 }, (_, n) => ({ id: `${tenant} ${n}`, tenant })),
    )
  const one = consumer()
  const counts = new Map<string | null, number>()
  for (let left = 240, size = 1; left > 0; left -= size, size = Math.min(left, (size % 7) + 1))
    for (let got = 0; got < size; ) {
      const jobs = await one.claim({ queues: queue, count: size - got, wait: 1_000 })
      for (const { tenant } of jobs) counts.set(tenant, (counts.get(tenant) ?? 0) + 1)
      got += jobs.length
    }
  for (const count of counts.values()) expect(Math.abs(count - 80)).toBeLessThan(20)
  expect([...counts.keys()].sort()).toEqual(['a', 'b', null])
})

test('lane n comes 1/(n + 1) times as often as lane 0', async () => {
  const queue = env.queue({ shards: 2 })
  for (const lane of [0, 2])
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 200 }, (_, n) => ({ id: `${lane} ${n}`, lane })),
    )
  const one = consumer()
  const ids: string[] = []
  while (ids.length < 160)
    ids.push(...(await one.claim({ queues: queue, count: 8, wait: 1_000 })).map(({ id }) => id))
  const share = ids.filter((id) => id.startsWith('2 ')).length / ids.length
  expect(share).toBeGreaterThan(0.17)
  expect(share).toBeLessThan(0.33)
})

test.each([1, 3])(
  'under a limit of %s, too, and a settlement wakes who waits for its place',
  async (concurrency) => {
    const queue = env.queue({ shards: 4 })
    for (const [place, tenant] of ['a', 'b'].entries())
      await env.lockstep.enqueue(
        queue,
        Array.from({ length: 200 }, (_, n) => ({
          id: `${tenant} ${n}`,
          tenant,
          performIn: 1_000_000 + place,
        })),
      )
    await env.sql('SELECT lockstep.set_limits(queue_id, $2) FROM lockstep.queues WHERE name = $1', [
      queue.name,
      { concurrency },
    ])
    const one = consumer()
    const claimed: string[] = []
    let waits = 0
    const consume = async () => {
      while (claimed.length < 120) {
        const jobs = await one.claim({ queues: queue, count: 2, wait: 10_000 })
        if (jobs.length === 0) waits += 1
        claimed.push(...jobs.map(({ id }) => id))
        await Promise.all(jobs.map((job) => one.complete(job)))
      }
    }
    await Promise.all(Array.from({ length: 5 }, consume))
    expect(waits).toBe(0)
    const ofA = claimed.slice(20, 120).filter((id) => id.startsWith('a')).length
    expect(Math.abs(ofA - 50)).toBeLessThan(12)
  },
)
