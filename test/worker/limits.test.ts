import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Batch } from '../../src/handler.ts'
import { weighted } from '../../src/index.ts'
import { Lockstep } from '../../src/lockstep.ts'
import type { Queue } from '../../src/queue.ts'
import type { QueueOptions } from '../../src/queue-options.ts'
import { backends, terminate } from '../support/backends.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const PAST = 1_536_323_288_000

/** Jobs of a tenant, all in one lane, due in this order. */
const jobs = (tenant: string, count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => ({
    id: `${tenant}${from + n}`,
    tenant,
    lane: 0,
    performIn: PAST + from + n,
  }))

/** Counts what runs at once, of all and of each tenant. */
class Running {
  readonly most = new Map<string, number>()
  readonly ids: string[] = []
  readonly #now = new Map<string, number>()

  around(work: (id: string) => Promise<unknown>) {
    return async (batch: Batch<unknown>) => {
      const keys = [...batch.keys()].flatMap((id) => ['all', id[0]!])
      for (const key of keys) this.#add(key, 1)
      this.ids.push(...batch.keys())
      await Promise.all([...batch.keys()].map(work))
      for (const key of keys) this.#add(key, -1)
    }
  }

  #add(key: string, by: number): void {
    const now = (this.#now.get(key) ?? 0) + by
    this.#now.set(key, now)
    this.most.set(key, Math.max(this.most.get(key) ?? 0, now))
  }
}

/** Three hundred jobs of each name, those of the first name the oldest. */
async function backlogs(queue: Queue, names: readonly string[], rest: (name: string) => object) {
  for (const [place, name] of names.entries())
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 300 }, (_, n) => ({ id: `${name}${n}`, performIn: PAST + place, ...rest(name) })),
    )
}

const limited = (options: QueueOptions<unknown>) => env.queue({ shards: 4, ...options })
const none = (queue: Queue) => eventually(async () => expect(await env.jobs(queue)).toBe(0))

describe('concurrency', () => {
  test('of 1 lets one job run at a time, in all shards and processes', async () => {
    const running = new Running()
    const queue = limited({ limits: { concurrency: 1 }, perform: running.around(() => sleep(2)) })
    await env.lockstep.enqueue(queue, jobs('a', 60))
    const workers = [
      await env.work({ queues: [queue], slots: 32 }),
      await env.work({ queues: [queue], slots: 32 }),
    ]
    await none(queue)
    expect(running.most.get('all')).toBe(1)
    expect(running.ids).toHaveLength(60)
    expect(workers).toHaveLength(2)
  })

  test('of 1 is shared by processes: none keeps the place to itself', async () => {
    const queue = limited({ limits: { concurrency: 1 }, perform: () => sleep(2) })
    const workers = [
      await env.work({ queues: [queue], slots: 4 }),
      await env.work({ queues: [queue], slots: 4 }),
    ]
    const done = [0, 0]
    for (const [place, worker] of workers.entries())
      worker.on('completed', () => {
        done[place]! += 1
      })
    await env.lockstep.enqueue(queue, jobs('a', 4_000))
    await eventually(() => expect(Math.min(...done)).toBeGreaterThan(20))
    await env.sql('DELETE FROM lockstep.jobs WHERE claimed_by IS NULL')
    await none(queue)
  })

  test('below batchSize makes batches smaller', async () => {
    const sizes: number[] = []
    const perform = (batch: Batch<unknown>) => void sizes.push(batch.size)
    const queue = limited({ shards: 1, batchSize: 10, limits: { concurrency: 3 }, perform })
    await env.lockstep.enqueue(queue, jobs('a', 9))
    await env.work({ queues: [queue], slots: 4 })
    await none(queue)
    expect(Math.max(...sizes)).toBe(3)
  })

  test('of tenants holds for each, and none holds up others of its lane', async () => {
    const running = new Running()
    const gate = new Gate()
    const work = async (id: string) => (id.startsWith('a') ? gate.opened : sleep(1))
    const queue = limited({ limits: { tenant: { concurrency: 2 } }, perform: running.around(work) })
    await env.lockstep.enqueue(queue, [...jobs('a', 200), ...jobs('b', 50, 200), ...jobs('c', 50, 250)])
    await env.work({ queues: [queue], slots: 32 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(200))
    expect(Object.fromEntries(running.most)).toEqual({ all: expect.any(Number), a: 2, b: 2, c: 2 })
    expect(await env.job(queue, 'a9')).toMatchObject({ retry_count: -1, crashes: 0, claimed_by: null })
    gate.open()
    await none(queue)
    expect(running.most.get('a')).toBe(2)
  })

  test('lets others by that come behind thousands of jobs of a blocked tenant', async () => {
    const running = new Running()
    const gate = new Gate()
    const work = async (id: string) => id.startsWith('a') && gate.opened
    const queue = limited({
      shards: 1,
      limits: { tenant: { concurrency: 1 } },
      perform: running.around(work),
    })
    await env.lockstep.enqueue(queue, [...jobs('a', 3_500), ...jobs('b', 3, 3_500)])
    await env.work({ queues: [queue], slots: 4 })
    await eventually(() => expect(running.ids.toSorted()).toEqual(['a0', 'b3500', 'b3501', 'b3502']))
    await env.lockstep.enqueue(queue, { id: 'c1', tenant: 'c', lane: 0 })
    await eventually(() => expect(running.ids).toContain('c1'))
    await env.sql(`DELETE FROM lockstep.jobs WHERE id LIKE 'a%' AND claimed_by IS NULL`)
    gate.open()
    await none(queue)
  })

  test('lets the next job begin at once when one ends', async () => {
    const queue = limited({ limits: { concurrency: 2 }, perform: () => sleep(5) })
    await env.lockstep.enqueue(queue, jobs('a', 100))
    const startedAt = performance.now()
    await env.work({ queues: [queue], slots: 16 })
    await none(queue)
    // 250 ms of handlers. If each place were found by a look alone, it would take ten seconds.
    expect(performance.now() - startedAt).toBeLessThan(8_000)
  })

  test.each([1, 3])('of %s is shared by tenants, whoever’s jobs are older', async (concurrency) => {
    const running = new Running()
    const queue = limited({ limits: { concurrency }, perform: running.around(() => sleep(2)) })
    await backlogs(queue, ['a', 'b'], (tenant) => ({ tenant }))
    await env.work({ queues: [queue], slots: 5 })
    await eventually(() => expect(running.ids.length).toBeGreaterThan(160))
    // What a lane may have had before the other one was known is left out.
    const count = (name: string) => running.ids.slice(60, 160).filter((id) => id.startsWith(name)).length
    expect(Math.abs(count('a') - count('b'))).toBeLessThan(20)
  })

  test('is shared by lanes by weight, whichever has the older jobs', async () => {
    const running = new Running()
    const queue = limited({ limits: { concurrency: 1 }, perform: running.around(() => sleep(2)) })
    await backlogs(queue, ['slow', 'quick'], (name) => ({ lane: name === 'slow' ? 1 : 0 }))
    await env.work({ queues: [queue], slots: 5, scheduler: weighted({ [queue.name]: { 0: 9, 1: 1 } }) })
    await eventually(() => expect(running.ids.length).toBeGreaterThan(200))
    expect(running.ids.slice(20, 200).filter((id) => id.startsWith('slow')).length).toBeLessThan(60)
  })

  test('is seen to anew by a worker whose lock connection broke while there was no place', async () => {
    const queue = limited({ limits: { concurrency: 1 }, perform: () => {} })
    await env.lockstep.enqueue(queue, jobs('a', 20))
    const consumer = env.lockstep.createConsumer()
    env.later(() => consumer.stop())
    const worker = env.create({ queues: [queue] })
    const throttled = next(worker, 'throttled')
    await env.sql(`SELECT lockstep.create_queue($1, 4)`, [queue.name])
    const [held] = await consumer.claim({ queues: queue })
    await worker.start()
    await throttled
    const [before] = await backends(env, 'lock')
    await terminate(env, 'lock')
    await eventually(async () =>
      expect(await backends(env, 'lock')).toEqual([expect.not.toBeOneOf([before])]),
    )
    await consumer.complete(held!)
    await none(queue)
  })

  test('is no hindrance to other queues', async () => {
    const gate = new Gate()
    const ran: string[] = []
    const queue = limited({ limits: { concurrency: 1 }, perform: () => gate.opened })
    const free = env.queue({ perform: (batch) => void ran.push(...batch.keys()) })
    await env.lockstep.enqueue(queue, jobs('a', 50))
    await env.work({ queues: [queue, free], slots: 2 })
    await env.lockstep.enqueue(free, jobs('b', 50))
    await eventually(() => expect(ran).toHaveLength(50))
    gate.open()
  })
})

describe('a rate', () => {
  test('lets no more rounds begin in any window, and the next ones as soon as it allows', async () => {
    const at: number[] = []
    const queue = limited({
      limits: { rate: { jobs: 10, per: 0.5 } },
      perform: () => void at.push(performance.now()),
    })
    await env.lockstep.enqueue(queue, jobs('a', 45))
    const startedAt = performance.now()
    await env.work({ queues: [queue], slots: 32 })
    await none(queue)
    const [row] = await env.sql<{ most: number }>(
      `SELECT max(rounds)::int AS most FROM (
         SELECT sum(s.rounds) OVER (ORDER BY s.at RANGE BETWEEN interval '0.4999 s' PRECEDING AND CURRENT ROW) AS rounds
         FROM (
           SELECT at, total - coalesce(lag(total) OVER (ORDER BY at), 0) AS rounds
           FROM lockstep.starts JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1
         ) s
       ) s`,
      [queue.name],
    )
    expect(row!.most).toBeLessThanOrEqual(10)
    expect(at).toHaveLength(45)
    expect(performance.now() - startedAt).toBeGreaterThan(2_000)
    expect(performance.now() - startedAt).toBeLessThan(4_000)
  })

  test('of a tenant leaves others alone, and retries count', async () => {
    let failed = 0
    const queue = limited({
      limits: { tenant: { rate: { jobs: 2, per: 60 } } },
      maxRetryCount: 5,
      perform: (batch) => {
        if (!batch.has('a0')) return
        failed += 1
        throw new Error('fails')
      },
    })
    await env.lockstep.enqueue(queue, [...jobs('a', 1), ...jobs('b', 1)])
    const worker = env.create({ queues: [queue] })
    const throttled = next(worker, 'throttled')
    await worker.start()
    expect(await throttled).toMatchObject({ queue: queue.name, tenant: 'a', until: expect.any(Date) })
    // A round that was released, since no slot began with it in time, counts as well.
    expect(failed).toBeGreaterThan(0)
    expect(failed).toBeLessThan(3)
    expect(await env.job(queue, 'a0')).toMatchObject({ retry_count: failed - 1 })
    await eventually(async () => expect(await env.job(queue, 'b0')).toBeUndefined())
    const rows = await env.sql(
      'SELECT what, used, most FROM lockstep.limited WHERE queue = $1 AND tenant = $2',
      [queue.name, 'a'],
    )
    expect(rows).toEqual([{ what: 'rate', used: 2, most: 2 }])
  })
})

describe('limits', () => {
  test('of a new definition are in force when its worker starts', async () => {
    const running = new Running()
    const gate = new Gate()
    const queue = limited({ limits: { concurrency: 1 }, perform: running.around(() => gate.opened) })
    await env.lockstep.enqueue(queue, jobs('a', 10))
    const worker = await env.work({ queues: [queue], slots: 8 })
    await eventually(() => expect(worker.report()).toHaveLength(1))
    const later = { ...queue, limits: { concurrency: 3 } }
    await env.work({ queues: [later], slots: 8 })
    await eventually(() => expect(running.most.get('all')).toBe(3))
    gate.open()
    await none(queue)
    expect(running.most.get('all')).toBe(3)
  })

  test('tell when they begin and end to keep jobs waiting, once for each', async () => {
    const queue = limited({ limits: { concurrency: 1 }, perform: () => sleep(5) })
    await env.lockstep.enqueue(queue, jobs('a', 30))
    const worker = env.create({ queues: [queue], slots: 8 })
    const heard: string[] = []
    worker.on('throttled', ({ tenant, until }) => heard.push(`throttled ${tenant} ${until}`))
    worker.on('unthrottled', ({ tenant }) => heard.push(`unthrottled ${tenant}`))
    const ended = next(worker, 'unthrottled')
    await worker.start()
    await ended
    expect(heard).toEqual(['throttled null null', 'unthrottled null'])
    expect(await env.jobs(queue)).toBe(0)
  })
})

describe('what waits because of limits', () => {
  test.each([
    ['the queue’s concurrency', { concurrency: 2 }],
    ['the queue’s rate', { rate: { jobs: 1, per: 3_600 } }],
    ['the tenants’ rate', { tenant: { rate: { jobs: 1, per: 3_600 } } }],
  ])('is not asked for all the time, in many lanes and shards: %s', { tags: 'slow' }, async (_, limits) => {
    const gate = new Gate()
    const queue = env.queue({ shards: 16, limits, perform: () => gate.opened })
    const pushes = Array.from({ length: 600 }, (_, n) => ({ id: `id-${n}`, tenant: `t${n % 40}` }))
    await env.lockstep.enqueue(queue, pushes)
    let claims = 0
    const instrument = {
      claim() {
        claims += 1
      },
    }
    const lockstep = new Lockstep({ pool: env.pool, logger: env.logger, instrumentation: [instrument] })
    const worker = env.create({ queues: [queue], slots: 10 }, lockstep)
    await worker.start()
    await sleep(2_500)
    claims = 0
    await sleep(1_500)
    // A few times a second, whether there is a place.
    expect(claims).toBeLessThan(150)
    gate.open()
  })
})

describe('what is committed late behind what limits keep waiting', () => {
  /** A worker whose slots one tenant’s jobs leave free: one is in work, and so many wait in lane 0. */
  async function blocked(waiting: number) {
    const [gate, ran] = [new Gate(), [] as string[]]
    const perform = async (batch: Batch<unknown>) => {
      ran.push(...batch.keys())
      if (batch.has('a0')) await gate.opened
    }
    const queue = limited({ shards: 1, limits: { tenant: { concurrency: 1 } }, perform })
    await env.lockstep.enqueue(queue, jobs('a', waiting + 1))
    const claims: string[] = []
    const instrument = { claim: () => void claims.push('') }
    const lockstep = new Lockstep({ pool: env.pool, logger: env.logger, instrumentation: [instrument] })
    const worker = env.create({ queues: [queue], slots: 4 }, lockstep)
    await worker.start()
    // The cursor has passed all that waits.
    await env.lockstep.enqueue(queue, { id: 'b', tenant: 'b', lane: 0, performIn: PAST + 1_000_000 })
    await eventually(() => expect(ran).toContain('b'))
    return { queue, gate, ran, claims }
  }

  /** Jobs that no wake-up announces, among those that wait. */
  async function pushLate(queue: Queue, late: readonly { id: string; tenant?: string; after: number }[]) {
    const tx = await env.session()
    await tx.query('BEGIN')
    const pushes = late.map(({ id, tenant, after }) => ({
      id,
      tenant,
      lane: 0,
      performIn: PAST + after + 0.5,
    }))
    await env.lockstep.enqueue(queue, pushes, { tx, wake: false })
    await tx.query('COMMIT')
  }

  test('P8: is found by the next full looks, whoever’s it is and however much waits', async () => {
    const { queue, gate, ran, claims } = await blocked(8_000)
    claims.length = 0
    await pushLate(queue, [
      { id: 'c', tenant: 'c', after: 7_900 },
      { id: 'd', after: 20 },
      { id: 'f', tenant: 'f', after: 4_000 },
      { id: 'g', tenant: 'f', after: 4_001 },
    ])
    const late = ['c', 'd', 'f', 'g']
    await eventually(() => expect(ran.filter((id) => late.includes(id)).toSorted()).toEqual(late), 7_000)
    // Before all that waits.
    await pushLate(queue, [{ id: 'e', tenant: 'e', after: 0 }])
    await eventually(() => expect(ran).toContain('e'), 7_000)
    // Nothing of what waits is claimed or read by claims again and again.
    expect(claims.length).toBeLessThan(80)
    await env.sql(`DELETE FROM lockstep.jobs WHERE id LIKE 'a%' AND claimed_by IS NULL`)
    gate.open()
    await none(queue)
  })

  test('P8: is found if it’s of a tenant that waits further on, and goes first', {
    tags: 'slow',
  }, async () => {
    const gates = { a0: new Gate(), b0: new Gate() }
    const ran: string[] = []
    const perform = async (batch: Batch<unknown>) => {
      for (const id of batch.keys()) ran.push(id)
      await Promise.all(Array.from(batch.keys(), (id) => gates[id as 'a0' | 'b0']?.opened))
    }
    const queue = limited({ shards: 1, limits: { tenant: { concurrency: 1 } }, perform })
    await env.lockstep.enqueue(queue, [...jobs('a', 400), ...jobs('b', 1, 0), ...jobs('b', 2, 1_000)])
    const worker = await env.work({ queues: [queue], slots: 4 })
    await env.lockstep.enqueue(queue, { id: 'c', tenant: 'c', lane: 0, performIn: PAST + 9_000 })
    await eventually(() => expect(ran.toSorted()).toEqual(['a0', 'b0', 'c']))
    const looked = next(worker, 'completed', ({ ids }) => ids.includes('e'), 5_000)
    await pushLate(queue, [{ id: 'd', tenant: 'b', after: 300 }])
    await pushLate(queue, [{ id: 'e', tenant: 'e', after: 301 }])
    await looked
    gates.b0.open()
    await eventually(() => expect(ran.slice(-3)).toEqual(['d', 'b1000', 'b1001']))
    gates.a0.open()
    await none(queue)
  })

  test('P8: is found if it’s of a tenant that waits, and goes in its turn', async () => {
    const { queue, gate, ran } = await blocked(40)
    await pushLate(queue, [
      { id: 'x', tenant: 'a', after: 20 },
      { id: 'e', tenant: 'e', after: 30 },
    ])
    await eventually(() => expect(ran).toContain('e'), 7_000)
    gate.open()
    await none(queue)
    expect(ran.slice(ran.indexOf('a20')).slice(0, 3)).toEqual(['a20', 'x', 'a21'])
  })

  test('and announced is taken at once, without going through all that waits', async () => {
    const { queue, gate, ran, claims } = await blocked(8_000)
    claims.length = 0
    await env.lockstep.enqueue(queue, { id: 'c', tenant: 'c', lane: 0, performIn: PAST + 300.5 })
    await eventually(() => expect(ran).toContain('c'))
    expect(claims.length).toBeLessThan(20)
    await env.sql(`DELETE FROM lockstep.jobs WHERE id LIKE 'a%' AND claimed_by IS NULL`)
    gate.open()
    await none(queue)
    // When nothing is left, no more claims are made: a full look a second may lead to one.
    await sleep(500)
    claims.length = 0
    await sleep(1_000)
    expect(claims.length).toBeLessThan(10)
  })
})

describe('limits that someone else changes', () => {
  const change = (queue: Queue, limits: object | null) =>
    env.sql('SELECT lockstep.set_limits(queue_id, $2) FROM lockstep.queues WHERE name = $1', [
      queue.name,
      limits && JSON.stringify(limits),
    ])
  const onceAnHour = { rate: { jobs: 1, per: 3_600 } }
  const plenty = { rate: { jobs: 1_000, per: 1 } }

  async function throttled(limits: object, shards: number) {
    const queue = env.queue({ shards, limits, perform() {} })
    await env.lockstep.enqueue(queue, jobs('a', 20))
    const worker = env.create({ queues: [queue], slots: 4 })
    const begun = next(worker, 'throttled')
    await worker.start()
    await begun
    return { queue, worker }
  }

  test.each([
    ['the queue', (limits: object) => limits],
    ['a tenant', (limits: object) => ({ tenant: limits })],
  ])('are in force within some seconds, in all shards: those of %s', { tags: 'slow' }, async (_, of) => {
    const { queue } = await throttled(of(onceAnHour), 4)
    await change(queue, of(plenty))
    await eventually(async () => expect(await env.jobs(queue)).toBe(0), 9_000)
  })

  test('are in force within some seconds, too, if the job that waited first is gone', async () => {
    const { queue } = await throttled(onceAnHour, 1)
    await env.sql(
      `DELETE FROM lockstep.jobs WHERE (queue_id, id) IN (
         SELECT queue_id, id FROM lockstep.jobs JOIN lockstep.queues USING (queue_id)
         WHERE name = $1 AND claimed_by IS NULL ORDER BY perform_in LIMIT 1)`,
      [queue.name],
    )
    await change(queue, null)
    await eventually(async () => expect(await env.jobs(queue)).toBe(0), 9_000)
  })

  test('no longer count as reached when all jobs are gone', { tags: 'slow' }, async () => {
    const { queue, worker } = await throttled(onceAnHour, 1)
    const ended = next(worker, 'unthrottled')
    await change(queue, plenty)
    await env.sql(
      'DELETE FROM lockstep.jobs WHERE queue_id = (SELECT queue_id FROM lockstep.queues WHERE name = $1)',
      [queue.name],
    )
    expect(await ended).toMatchObject({ queue: queue.name, tenant: null })
  })
})
