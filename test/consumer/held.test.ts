import { expect, onTestFinished, test } from 'vitest'
import { Discard } from '../../src/index.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

/** Sessions that wait for a lock at once, at most. */
const MOST_WAITING = 4

/** How many sessions of this database wait for a lock. */
async function waiting(): Promise<number> {
  const rows = await env.sql(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  )
  return rows.length
}

test.each(['complete', 'fail', 'release', 'die'] as const)(
  'P7: however many settlements wait for open transactions (%s), few connections do, and others go on',
  async (end) => {
    const one = consumer()
    const queue = env.queue({})
    const ids = Array.from({ length: 100 }, (_, n) => `held-${n}`)
    await env.lockstep.enqueue(
      queue,
      ids.map((id) => ({ id })),
    )
    const jobs = await one.claim({ queues: queue, count: ids.length, lease: 60_000 })
    expect(jobs).toHaveLength(ids.length)
    const producer = await env.pool.connect()
    onTestFinished(() => producer.release(true))
    await producer.query('BEGIN')
    await producer.query('SELECT lockstep.enqueue_many($1, $2)', [queue.name, ids])

    let answered = 0
    const settle = (job: (typeof jobs)[number]) =>
      end === 'die' ? one.fail(job, new Discard('no')) : end === 'fail' ? one.fail(job, 'no') : one[end](job)
    const settled = jobs.map(settle)
    for (const one of settled)
      void one.then(
        () => answered++,
        () => answered++,
      )
    const free = env.queue({})
    const seen: number[] = []
    while (seen.length < 20) {
      await env.lockstep.enqueue(free, { id: 'free' })
      const [job] = await one.claim({ queues: free, wait: 10_000 })
      expect(await one.complete(job!)).toBe(true)
      seen.push(await waiting())
    }
    expect(answered).toBe(0)
    // By then each has been tried.
    const last = Math.max(...seen.slice(-10))
    expect(last).toBeGreaterThan(0)
    expect(last).toBeLessThanOrEqual(MOST_WAITING)

    await producer.query('COMMIT')
    expect(await Promise.all(settled)).toEqual(jobs.map(() => true))
  },
)
