import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Fairness } from '../../src/fairness.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { defineQueue } from '../../src/queue.ts'
import type { QueueOptions } from '../../src/queue-options.ts'
import { noteTenantWaits, trimTenantLanes, trimTenants } from '../../src/store/tenants.ts'
import { advance } from '../../src/testing/advance.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const HOUR = 3_600
const DAY = 24 * HOUR
const MINUTE = 60

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

const ruled = (rules: Fairness['rules'], options: QueueOptions<unknown> = {}) =>
  env.queue({ fairness: { window: DAY, rules }, ...options })

/** The lanes of jobs, in the order of their ids. */
async function lanes({ queueId }: TestQueue): Promise<number[]> {
  const rows = await env.query<{ lane: number }>(
    'SELECT lane FROM lockstep.jobs WHERE queue_id = $1 ORDER BY id COLLATE "C"',
    [queueId],
  )
  return rows.map(({ lane }) => lane)
}

let pushed = 0

/** Pushes so many jobs of a tenant, one by one, and returns their lanes. */
async function pushFor(testQueue: TestQueue, tenant: string, count = 1, job: Partial<NewJob> = {}) {
  const found: number[] = []
  for (let n = 0; n < count; n += 1) {
    pushed += 1
    await testQueue.push({ id: `p${pushed}`, tenant, ...job })
    found.push((await testQueue.job(`p${pushed}`)).lane)
  }
  return found
}

/** Somebody who claims tells how many seconds jobs have waited in some lanes, all of which a tenant fills. */
const tellWaits = ({ queueId }: TestQueue, waits: Readonly<Record<number, number>>, tenant = '') =>
  noteTenantWaits(env.database, [
    {
      queueId,
      waits: Array.from({ length: 32 }, (_, place) => waits[-1 - place] ?? 0),
      tenants: Array(32).fill(tenant),
    },
  ])

const pass = ({ queue }: TestQueue, seconds: number) => advance(env.lockstep, queue, seconds * 1_000)

describe('a job’s tenant', () => {
  const tenantsOf = async ({ queueId }: TestQueue) => {
    const rows = await env.query<{ tenant: string | null }>(
      'SELECT tenant FROM lockstep.jobs WHERE queue_id = $1 ORDER BY id COLLATE "C"',
      [queueId],
    )
    return rows.map(({ tenant }) => tenant)
  }

  test('is what the job says, else what its queue says, else what a middleware has set', async () => {
    const tenant = ({ payload }: NewJob) => payload as string | null
    const testQueue = await env.queue({ tenant })
    const lockstep = env.lockstepAnew(({ jobs }, next) =>
      next(jobs.map((job) => ({ ...job, tenant: job.tenant ?? 'middleware' }))),
    )
    await lockstep.enqueue(testQueue.queue, [
      { id: 'a', payload: 'queue', tenant: 'job' },
      { id: 'b', payload: 'queue' },
      { id: 'c', payload: null },
      { id: 'd', payload: '' },
      { id: 'e', payload: 'queue', tenant: '' },
    ])
    expect(await tenantsOf(testQueue)).toEqual(['job', 'queue', 'middleware', 'middleware', 'queue'])
  })

  test('is told of jobs that a middleware makes, too', async () => {
    const testQueue = await env.queue({ tenant: ({ id }: NewJob) => `of ${id}` })
    await env.lockstepAnew((_, next) => next([{ id: 'b' }])).enqueue(testQueue.queue, { id: 'a' })
    expect(await tenantsOf(testQueue)).toEqual(['of b'])
  })

  test.each<[string, () => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no such customer')
      },
      /^jobs\[1\]\.tenant can’t be told: .* threw: no such customer$/,
    ],
    ['is async', async () => 'a', /^jobs\[1\]\.tenant must be text: .* a promise/],
    [
      'rejects',
      async () => {
        throw new Error('late')
      },
      /^jobs\[1\]\.tenant must be text: .* a promise/,
    ],
    ['returns an object', () => ({}), /^jobs\[1\]\.tenant must be text: .* returned an object$/],
    ['returns too much', () => 'x'.repeat(2_000), /^jobs\[1\]\.tenant must be at most 1,024 bytes, not 2000/],
    [
      'returns control characters',
      () => 'a\u0007',
      /^jobs\[1\]\.tenant must be well-formed text without control characters$/,
    ],
  ])('stores nothing if the queue’s function %s', async (_, told, message) => {
    const tenant = ({ id }: NewJob) => (id === 'b' ? told() : 'a') as string
    const testQueue = await env.queue({ tenant })
    const pushing = testQueue.push({ id: 'a' }, { id: 'b' }, { id: 'c' })
    await expect(pushing).rejects.toThrow(message)
    await expect(pushing).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_JOB', index: 1, field: 'tenant' })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('is checked in SQL as well', async () => {
    const { queue } = await env.queue()
    const push = (tenant: string) =>
      env.query('SELECT lockstep.enqueue($1, $2::text, tenant => $3)', [queue.name, 'a', tenant])
    await expect(push('x'.repeat(2_000))).rejects.toThrow('jobs[0].tenant must be at most 1,024 bytes')
    await expect(push('a\u0007')).rejects.toThrow('jobs[0].tenant must not contain control characters')
    const many = env.query(
      `SELECT lockstep.enqueue_many($1, ARRAY['a', 'b'], _tenants => ARRAY['t', E'a\\nb'])`,
      [queue.name],
    )
    await expect(many).rejects.toThrow('jobs[1].tenant must not contain control characters')
    await expect(push('')).resolves.toBeDefined()
  })

  test('stays with the job, through retries, a death and the way back', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', tenant: 't', payload: 1 }, { id: 'b', tenant: 't', payload: 1 })
    await testQueue.push({ id: 'a', tenant: 'other', payload: 2 })
    const { lane } = await testQueue.job('a')
    const claimer = await testQueue.claimer()
    const take = async () => (await claimer.claim({ lane, batchSize: 9 })).rounds
    const rounds = await take()
    expect(rounds.map(({ id, tenant }) => [id, tenant])).toEqual([
      ['a', 't'],
      ['b', 't'],
    ])
    await claimer.fail(rounds)
    await claimer.fail(await take(), null)
    await claimer.discard(...(await take()))
    await env.lockstep.kill(testQueue.queue, {})
    const dead = 'SELECT id, payload, tenant FROM lockstep.dead WHERE queue = $1 ORDER BY id, payload'
    expect(await env.query(dead, [testQueue.queue.name])).toEqual([
      { id: 'a', payload: 1, tenant: 't' },
      { id: 'a', payload: 2, tenant: 't' },
      { id: 'b', payload: 1, tenant: 't' },
    ])
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await tenantsOf(testQueue)).toEqual(['t', 't'])
    // Its lane is that of its tenant again, and nothing was counted.
    expect(new Set(await lanes(testQueue))).toEqual(new Set([lane]))
  })

  test('is not given to a job that waits by what comes back from the morgue', async () => {
    const testQueue = await env.queue()
    const bury = async (job: NewJob) => {
      await testQueue.push(job)
      await env.lockstep.kill(testQueue.queue, {})
    }
    await bury({ id: 'a', tenant: 't', payload: 1 })
    await bury({ id: 'b', tenant: 't', payload: 1 })
    await testQueue.push({ id: 'a', payload: 2 }, { id: 'b', tenant: 'other', payload: 2 })
    const before = await lanes(testQueue)
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await tenantsOf(testQueue)).toEqual([null, 'other'])
    expect(await lanes(testQueue)).toEqual(before)
  })
})

describe('without rules, each tenant has a lane of its own', () => {
  test('the same for all of its jobs, below 0, and shown as 0', async () => {
    const testQueue = await env.queue({ shards: 4 })
    const tenants = Array.from({ length: 32 }, (_, n) => `t${n}`)
    for (const tenant of tenants)
      await testQueue.push({ id: `${tenant} 1`, tenant }, { id: `${tenant} 2`, tenant })
    const found = await lanes(testQueue)
    expect(new Set(found)).toEqual(new Set(Array.from({ length: 32 }, (_, n) => -1 - n)))
    const rows = await env.query<{ tenant: string; lanes: number }>(
      'SELECT tenant, count(DISTINCT lane)::int AS lanes FROM lockstep.jobs WHERE queue_id = $1 GROUP BY tenant',
      [testQueue.queueId],
    )
    expect(rows.every((row) => row.lanes === 1)).toBe(true)
    const shown =
      'SELECT DISTINCT lane, count(DISTINCT tenant) AS tenants FROM lockstep.waiting WHERE queue = $1 GROUP BY lane'
    expect(await env.query(shown, [testQueue.queue.name])).toEqual([{ lane: 0, tenants: 32 }])
  })

  test('also in one call, among others and jobs without', async () => {
    const testQueue = await env.queue()
    const tenants = Array.from({ length: 20 }, (_, n) => `t${n}`)
    const found = new Map<string, number>()
    for (const tenant of tenants.slice(5)) found.set(tenant, (await pushFor(testQueue, tenant))[0]!)
    await testQueue.push(
      ...Array.from({ length: 200 }, (_, n) => ({
        id: `many ${n}`,
        ...(n % 7 > 0 && { tenant: tenants[(n * 13) % 20]! }),
        ...(n % 5 === 0 && { lane: 3 }),
      })),
    )
    const rows = await env.query<{ id: string; tenant: string | null; lane: number }>(
      `SELECT id, tenant, lane FROM lockstep.jobs WHERE queue_id = $1 AND id LIKE 'many %'`,
      [testQueue.queueId],
    )
    expect(rows).toHaveLength(200)
    for (const tenant of tenants.slice(0, 5)) found.set(tenant, (await pushFor(testQueue, tenant))[0]!)
    expect(new Set(found.values()).size).toBe(20)
    for (const { id, tenant, lane } of rows) {
      const hasOwn = Number(id.slice(5)) % 5 === 0
      expect([id, lane]).toEqual([id, hasOwn ? 3 : tenant === null ? 0 : found.get(tenant)])
    }
  })

  test('and of more than there are lanes, several share one', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...Array.from({ length: 100 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    const counts = new Map<number, number>()
    for (const lane of await lanes(testQueue)) counts.set(lane, (counts.get(lane) ?? 0) + 1)
    expect(counts.size).toBe(32)
    // Each tenant beyond the 32nd has the choice between four.
    expect(Math.max(...counts.values())).toBeLessThanOrEqual(6)
  })

  test('a newcomer does not share with one that has piled up a lot, even if all lanes are taken', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    const [heavy] = (await pushFor(testQueue, 't3')) as [number]
    await tellWaits(testQueue, { [heavy]: 60 })
    for (let n = 0; n < 60; n += 1) expect(await pushFor(testQueue, `n${n}`)).not.toContain(heavy)
  })

  test.each([
    ['ten seconds ago', 11],
    ['before the clock was set back', -3_600],
    ['of another queue', 0],
  ])('what was told %s says nothing', async (_, seconds) => {
    const testQueue = await env.queue()
    await testQueue.push(...Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    const [heavy] = (await pushFor(testQueue, 't3')) as [number]
    const sharing = async () => (await lanes(testQueue)).filter((lane) => lane === heavy).length
    await tellWaits(seconds === 0 ? await env.queue() : testQueue, { [heavy]: 60 })
    await env.query('UPDATE lockstep.tenant_waits SET told_at = told_at - $1 * interval $$1 s$$', [seconds])
    const newcomers = Array.from({ length: 60 }, (_, n) => ({ id: `n${n}`, tenant: `n${n}` }))
    const before = await sharing()
    await testQueue.push(...newcomers)
    expect(await sharing()).toBeGreaterThan(before)
  })

  test('what several processes have told counts together, and goes after a minute', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    const [heavy] = (await pushFor(testQueue, 't3')) as [number]
    await tellWaits(testQueue, { [heavy]: 60 })
    await tellWaits(testQueue, {})
    for (let n = 0; n < 60; n += 1) expect(await pushFor(testQueue, `n${n}`)).not.toContain(heavy)
    const left = () => env.query('SELECT FROM lockstep.tenant_waits WHERE queue_id = $1', [testQueue.queueId])
    await trimTenants(env.database)
    expect(await left()).toHaveLength(2)
    await env.query(`UPDATE lockstep.tenant_waits SET told_at = told_at - interval '61 s'`)
    await trimTenants(env.database)
    expect(await left()).toEqual([])
  })

  test('an explicit lane, and no tenant, have nothing to do with it', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', tenant: 't', lane: 0 }, { id: 'b', tenant: 't', lane: 3 }, { id: 'c' })
    expect(await lanes(testQueue)).toEqual([0, 3, 0])
    expect(
      await env.query('SELECT FROM lockstep.tenant_lanes WHERE queue_id = $1', [testQueue.queueId]),
    ).toEqual([])
  })

  /** The tenants of a queue have had their lanes for so many seconds more. */
  const age = ({ queueId }: TestQueue, seconds: number) =>
    env.query(
      `UPDATE lockstep.tenant_lanes SET given_at = given_at - $2 * interval '1 s' WHERE queue_id = $1`,
      [queueId, seconds],
    )
  const holders = ({ queueId }: TestQueue) =>
    env.query(
      `SELECT tenant FROM lockstep.tenant_lanes WHERE queue_id = $1 AND tenant <> '' ORDER BY tenant`,
      [queueId],
    )

  /** A process that has served the queue for a while gives lanes back. */
  const trim = ({ queueId }: TestQueue) => trimTenantLanes(env.database, [queueId])

  test('which it gives back when nothing waits there, and keeps as long as its jobs do', async () => {
    const testQueue = await env.queue()
    const [busy] = (await pushFor(testQueue, 'busy')) as [number]
    await pushFor(testQueue, 'idle')
    await tellWaits(testQueue, { [busy]: 1 })
    await trim(testQueue)
    expect(await holders(testQueue)).toHaveLength(2)
    await age(testQueue, 61)
    await trim(testQueue)
    expect(await holders(testQueue)).toEqual([{ tenant: 'busy' }])
    await pushFor(testQueue, 'before the clock was set back')
    await env.query(
      `UPDATE lockstep.tenant_lanes SET given_at = given_at + interval '1 day' WHERE tenant LIKE 'before%'`,
    )
    await trim(testQueue)
    expect(await holders(testQueue)).toEqual([{ tenant: 'busy' }])
    await age(testQueue, 7_200)
    await trim(testQueue)
    expect(await holders(testQueue)).toEqual([{ tenant: 'busy' }])
  })

  test('which it gives back after a day if nobody serves the queue: nobody tells whether its jobs wait', async () => {
    const testQueue = await env.queue()
    await pushFor(testQueue, 't')
    await age(testQueue, 86_000)
    const { queueId } = await env.queue()
    await trimTenantLanes(env.database, [queueId])
    await trimTenants(env.database)
    expect(await holders(testQueue)).toEqual([{ tenant: 't' }])
    await age(testQueue, 500)
    await trimTenants(env.database)
    expect(await holders(testQueue)).toEqual([])
  })

  test('of several that share one, each gives it back after an hour, so that they part', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...Array.from({ length: 33 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    await tellWaits(testQueue, Object.fromEntries(Array.from({ length: 32 }, (_, n) => [-1 - n, 1])))
    await age(testQueue, 3_599)
    await trim(testQueue)
    expect(await holders(testQueue)).toHaveLength(33)
    await age(testQueue, 10)
    await trim(testQueue)
    expect(await holders(testQueue)).toHaveLength(31)
  })

  /** Alone, or along with another of its jobs and one of another tenant. */
  const ways = {
    alone: pushFor,
    'with others': async (testQueue: TestQueue, tenant: string) => {
      pushed += 1
      const [one, two] = [`p${pushed} 1`, `p${pushed} 2`]
      await testQueue.push(
        { id: one, tenant },
        { id: two, tenant },
        { id: `p${pushed} 3`, tenant: 'neighbour' },
      )
      const found = [(await testQueue.job(one)).lane, (await testQueue.job(two)).lane]
      return [...new Set(found)]
    },
  }

  describe.each(Object.entries(ways))('pushed %s', (_, pushWay) => {
    test('which it leaves when the jobs of another have waited there for five seconds, for a better one', async () => {
      const testQueue = await env.queue()
      const [lane] = (await pushWay(testQueue, 't')) as [number]
      await tellWaits(testQueue, { [lane]: 4 }, 'other')
      expect(await pushWay(testQueue, 't')).toEqual([lane])
      await tellWaits(testQueue, { [lane]: 5 }, 'other')
      const [better] = (await pushWay(testQueue, 't')) as [number]
      expect(better).not.toBe(lane)
      expect(await pushWay(testQueue, 't')).toEqual([better])
    })

    test.each([
      ['its own jobs have', { waits: 1_000, elsewhere: 0, tenant: 't' }],
      ['its own jobs have, and its name is long', { waits: 1_000, elsewhere: 0, tenant: 't'.repeat(1_024) }],
      ['nobody knows whose jobs have', { waits: 1_000, elsewhere: 0, tenant: '' }],
      ['they have about as long in all others', { waits: 1_000, elsewhere: 900, tenant: 'other' }],
    ])('which it keeps if %s', async (_, { waits, elsewhere, tenant }) => {
      const testQueue = await env.queue()
      const name = tenant.startsWith('t') ? tenant : 't'
      const [lane] = (await pushWay(testQueue, name)) as [number]
      const before = await holders(testQueue)
      const all = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [-1 - n, elsewhere]))
      await tellWaits(testQueue, { ...all, [lane]: waits }, tenant)
      expect(await pushWay(testQueue, name)).toEqual([lane])
      expect(await holders(testQueue)).toEqual(before)
    })
  })

  test('a lane that was given back with jobs in it is nobody’s as long as they wait', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', tenant: 'busy' }, { id: 'b', tenant: 'busy as well' })
    const [left] = (await lanes(testQueue)) as [number]
    await env.query('DELETE FROM lockstep.tenant_lanes WHERE queue_id = $1', [testQueue.queueId])
    await tellWaits(testQueue, { [left]: 1 })
    for (let n = 0; n < 60; n += 1) expect(await pushFor(testQueue, `n${n}`)).not.toContain(left)
  })
})

describe('a rule', () => {
  test('A2: matches above its threshold, the push itself included', async () => {
    const testQueue = await ruled([{ over: 2, lane: 1 }])
    expect(await pushFor(testQueue, 't', 4)).toEqual([0, 0, 1, 1])
    expect(await pushFor(testQueue, 'other', 1)).toEqual([0])
  })

  test('A1: all are looked at, and the last that matches decides, however severe', async () => {
    const testQueue = await ruled([
      { over: 1, lane: 5 },
      { over: 2, lane: 1 },
    ])
    expect(await pushFor(testQueue, 't', 4)).toEqual([0, 5, 1, 1])
  })

  test('A4: counts within its seconds, bounds inclusive', async () => {
    const testQueue = await ruled([{ over: 1, per: 1_000, lane: 1 }])
    await pushFor(testQueue, 't')
    await pass(testQueue, 999)
    expect(await pushFor(testQueue, 't')).toEqual([1])
    await pass(testQueue, 1_001)
    expect(await pushFor(testQueue, 't')).toEqual([0])
  })

  test('A3: counts pushes that it has sent to a lane, and those that join a waiting job, which changes no lane', async () => {
    const testQueue = await ruled([{ over: 3, lane: 1 }])
    for (let n = 0; n < 3; n += 1) await testQueue.push({ id: 'a', tenant: 't', payload: n })
    expect(await pushFor(testQueue, 't', 2)).toEqual([1, 1])
    await testQueue.push({ id: 'a', tenant: 't', payload: 9 })
    expect(await testQueue.job('a')).toMatchObject({ lane: 0 })
  })

  test('A8: an explicit lane wins, and counts nothing', async () => {
    const testQueue = await ruled([{ over: 1, lane: 1 }])
    expect(await pushFor(testQueue, 't', 3, { lane: 0 })).toEqual([0, 0, 0])
    expect(await pushFor(testQueue, 't', 2)).toEqual([0, 1])
  })

  test('A5: retries, releases and returns from the morgue count nothing', async () => {
    const testQueue = await ruled([{ over: 2, lane: 1 }])
    await pushFor(testQueue, 't', 1, { payload: 1 })
    const claimer = await testQueue.claimer()
    for (let n = 0; n < 3; n += 1) await claimer.fail([await claimer.take()])
    await claimer.release(await claimer.take())
    await claimer.fail([await claimer.take()], null)
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await pushFor(testQueue, 't', 2)).toEqual([0, 1])
  })

  test('counts several jobs of a call one after the other', async () => {
    const testQueue = await ruled([
      { over: 2, lane: 1 },
      { over: 4, lane: 2 },
    ])
    await pushFor(testQueue, 't')
    const ids = ['0', '1', '2', '3', '4', '5']
    await testQueue.push(
      ...ids.flatMap((id) => [
        { id: `${id} t`, tenant: 't' },
        { id: `${id} u`, tenant: 'u' },
      ]),
    )
    expect((await lanes(testQueue)).slice(0, 12)).toEqual([0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 2, 2])
  })

  test('does not apply to jobs without a tenant: one warning a minute says which', async () => {
    const warnings: object[] = []
    const logger = { ...console, warn: (fields: object) => warnings.push(fields) }
    const { queue } = await ruled([{ over: 0, lane: 1 }])
    const lockstep = new Lockstep({ pool: env.database.pool, logger })
    await lockstep.enqueue(queue, [{ id: 'a', tenant: 't' }, { id: 'b' }, { id: 'c', lane: 4 }])
    await lockstep.enqueue(queue, { id: 'd', tenant: '' })
    expect(warnings).toEqual([{ queue: queue.name, id: 'b' }])
    const [row] = await env.query<{ lanes: number[] }>(
      'SELECT array_agg(lane ORDER BY id) AS lanes FROM lockstep.jobs j JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1',
      [queue.name],
    )
    expect(row!.lanes).toEqual([1, 0, 4, 0])
  })

  test('goes for SQL as for TypeScript', async () => {
    const testQueue = await ruled([{ over: 1, lane: 1 }])
    await pushFor(testQueue, 't')
    const { name } = testQueue.queue
    await env.query(`SELECT lockstep.enqueue($1, 'x', tenant => 't')`, [name])
    await env.query(`SELECT lockstep.enqueue_many($1, ARRAY['y', 'z'], _tenants => ARRAY['t', NULL])`, [name])
    expect(await lanes(testQueue)).toEqual([0, 1, 1, 0])
  })
})

describe('A11: the specs of sidekiq-fair_tenant', () => {
  const rules = [
    { over: 1, per: DAY, lane: 1 },
    { over: 1, per: HOUR, lane: 2 },
  ]

  test('a queue without rules throttles no one', async () => {
    const testQueue = await env.queue()
    expect(new Set(await pushFor(testQueue, 't', 5)).size).toBe(1)
  })

  test('the second job of a tenant goes to the strictest rule’s lane, and another tenant’s does not', async () => {
    const testQueue = await ruled(rules)
    expect(await pushFor(testQueue, 't', 2)).toEqual([0, 2])
    expect(await pushFor(testQueue, 'other')).toEqual([0])
  })

  test('after an hour and a second it is the milder lane, after a day and a second its own', async () => {
    const testQueue = await ruled(rules)
    await pushFor(testQueue, 't')
    await pass(testQueue, HOUR + 1)
    expect(await pushFor(testQueue, 't')).toEqual([1])
    await pass(testQueue, DAY + 1)
    expect(await pushFor(testQueue, 't')).toEqual([0])
  })

  test('a lane that was chosen stays', async () => {
    const testQueue = await ruled(rules)
    expect(await pushFor(testQueue, 't', 3, { lane: 7 })).toEqual([7, 7, 7])
  })
})

describe('A12: the examples of its article', () => {
  const many = (testQueue: TestQueue, count: number) =>
    testQueue.push(...Array.from({ length: count }, (_, n) => ({ id: `${pushed++} ${n}`, tenant: 't' })))

  test('100 an hour, and 10 a minute', async () => {
    const testQueue = await ruled([
      { over: 100, per: HOUR, lane: 2 },
      { over: 10, per: MINUTE, lane: 4 },
    ])
    await many(testQueue, 10)
    expect(await pushFor(testQueue, 't')).toEqual([4])
    await pass(testQueue, MINUTE + 1)
    expect(await pushFor(testQueue, 't')).toEqual([0])
    await many(testQueue, 88)
    await pass(testQueue, MINUTE + 1)
    expect(await pushFor(testQueue, 't')).toEqual([2])
    await pass(testQueue, HOUR + 1)
    expect(await pushFor(testQueue, 't')).toEqual([0])
  })

  test('100 a day, and 40 an hour: the last rule wins where both match', async () => {
    const testQueue = await ruled([
      { over: 100, per: DAY, lane: 1 },
      { over: 40, per: HOUR, lane: 2 },
    ])
    await many(testQueue, 100)
    expect(await pushFor(testQueue, 't')).toEqual([2])
    await pass(testQueue, HOUR + 1)
    expect(await pushFor(testQueue, 't')).toEqual([1])
    await pass(testQueue, DAY + 1)
    expect(await pushFor(testQueue, 't')).toEqual([0])
  })
})

describe('transactions that push for one tenant', () => {
  test.each([
    ['with rules', { fairness: { rules: [{ over: 10, lane: 1 }] } }],
    ['without', {}],
  ])(
    '%s: none of 64 waits for another',
    async (_, options) => {
      const testQueue = await env.queue(options)
      await testQueue.push({ id: 'first', tenant: 't' })
      const open = await Promise.all(
        Array.from({ length: 64 }, () => env.transaction(`BEGIN; SET LOCAL lock_timeout = '2s'`)),
      )
      // Each stays open while all others push.
      await Promise.all(open.map((tx, n) => testQueue.pushIn(tx, { id: `${n}`, tenant: 't' })))
      await Promise.all(open.map((tx) => tx.query('COMMIT')))
      expect(await testQueue.countJobs()).toBe(65)
    },
    60_000,
  )

  test('count what is committed, and their own; a rollback takes its count along', async () => {
    const testQueue = await ruled([{ over: 2, lane: 1 }])
    await testQueue.push({ id: 'a0', tenant: 't' })
    const [one, other] = [await env.transaction(), await env.transaction()]
    await testQueue.pushIn(one, { id: 'b1', tenant: 't' })
    await testQueue.pushIn(one, { id: 'b2', tenant: 't' })
    await testQueue.pushIn(other, { id: 'c1', tenant: 't' })
    await one.query('ROLLBACK')
    await other.query('COMMIT')
    await testQueue.push({ id: 'd', tenant: 't' })
    expect(await lanes(testQueue)).toEqual([0, 0, 1])
  })

  test('that give one tenant two lanes agree once both are committed', async () => {
    const testQueue = await env.queue()
    const [{ rival }] = (await env.query<{ rival: string }>(
      `SELECT 'rival ' || n AS rival FROM generate_series(1, 1000) AS n
       WHERE hashtext(('rival ' || n) COLLATE "C") & 31 = hashtext('t' COLLATE "C") & 31 LIMIT 1`,
    )) as [{ rival: string }]
    const [one, other] = [await env.transaction(), await env.transaction()]
    await testQueue.pushIn(one, { id: 'a', tenant: 't' })
    // It takes the lane that the first one has taken, which isn't committed yet.
    await testQueue.push({ id: 'r', tenant: rival })
    await testQueue.pushIn(other, { id: 'b', tenant: 't' })
    await one.query('COMMIT')
    await other.query('COMMIT')
    await testQueue.push({ id: 'c', tenant: 't' }, { id: 'd', tenant: 't' })
    const [a, b, c, d, r] = await lanes(testQueue)
    expect(r).toBe(a)
    expect(a).not.toBe(b)
    expect([c, d]).toEqual([b, b])
  })

  test('many at once give it one lane, since all choose the same', async () => {
    const testQueue = await env.queue()
    const open = await Promise.all(Array.from({ length: 40 }, () => env.transaction()))
    await Promise.all(open.map((tx, n) => testQueue.pushIn(tx, { id: `${n}`, tenant: 't' })))
    await Promise.all(open.map((tx) => tx.query('COMMIT')))
    expect(new Set(await lanes(testQueue)).size).toBe(1)
  })
})

describe('what is remembered', () => {
  test('goes when the window has passed, and when a queue has no rules any more', async () => {
    const left = async ({ queueId }: TestQueue) =>
      (await env.query('SELECT FROM lockstep.tenant_pushes WHERE queue_id = $1', [queueId])).length
    const testQueue = await env.queue({ fairness: { window: 100, rules: [{ over: 1, per: 10, lane: 1 }] } })
    await pushFor(testQueue, 't', 3)
    await pass(testQueue, 99)
    await pushFor(testQueue, 't')
    await trimTenants(env.database)
    expect(await left(testQueue)).toBe(4)
    await pass(testQueue, 2)
    await trimTenants(env.database)
    expect(await left(testQueue)).toBe(1)
    await env.query('SELECT lockstep.set_fairness($1, NULL)', [testQueue.queueId])
    await trimTenants(env.database)
    expect(await left(testQueue)).toBe(0)
  })
})

describe('rules that come by SQL', () => {
  test.each([
    ['"junk"'],
    ['{}'],
    ['{"window": "x", "rules": []}'],
    ['{"window": 60, "rules": "junk"}'],
    ['{"window": 60, "rules": [{"over": 1, "per": 61, "lane": 1}]}'],
    ['{"window": 60, "rules": [{"over": 1.5, "per": 60, "lane": 1}]}'],
    ['{"window": 60, "rules": [{"over": 1, "per": 60, "lane": -1}]}'],
    ['{"window": 60, "rules": [{"over": 1, "per": 60}]}'],
    ['{"window": 60, "rules": [null]}'],
  ])('are refused if no push could go by them: %s', async (rules) => {
    const { queueId } = await env.queue()
    for (const name of ['set_fairness', 'add_fairness'])
      await expect(env.query(`SELECT lockstep.${name}($1, $2)`, [queueId, rules])).rejects.toMatchObject({
        code: '22023',
        message: expect.stringMatching('these are no rules for tenants'),
      })
  })
})

describe('the rules of a definition', () => {
  const define = (fairness: unknown) => () => defineQueue('q', { fairness: fairness as Fairness })
  const one = (rule: object) => define({ rules: [{ over: 1, lane: 1, ...rule }] })

  test.each<[string, () => unknown, RegExp]>([
    [
      'no lane',
      define({ rules: [{ over: 1 }] }),
      /rules\[0\]\.lane must be a whole number from 0 to 32767, not undefined/,
    ],
    ['a negative lane', one({ lane: -1 }), /rules\[0\]\.lane must be a whole number from 0/],
    ['a negative threshold', one({ over: -1 }), /rules\[0\]\.over must be a whole number from 0/],
    [
      'a period above the window',
      one({ per: 86_401 }),
      /rules\[0\]\.per must not be above the window of 86400 s.*raise `window`/,
    ],
    ['no period', one({ per: 0 }), /rules\[0\]\.per must be a number of seconds above 0/],
    ['an unknown key', one({ queue: 'slow' }), /rules\[0\]: unknown option `queue`/],
    ['no rules', define({}), /rules must be a list of 1 to 20 rules/],
    ['an empty list', define({ rules: [] }), /rules must be a list of 1 to 20 rules/],
    [
      'a window of nothing',
      define({ window: 0, rules: [{ over: 1, lane: 1 }] }),
      /window must be a whole number from 1/,
    ],
  ])('can’t have %s', (_, defining, message) => {
    expect(defining).toThrow(message)
  })

  test('are set by a producer that creates the queue, and by the worker that started last', async () => {
    const rulesOf = async (name: string) => {
      const [row] = await env.query<{ fairness: object }>(
        'SELECT fairness FROM lockstep.queues WHERE name = $1',
        [name],
      )
      return row!.fairness
    }
    const definition = (over: number) =>
      defineQueue('rules', { fairness: { window: 60, rules: [{ over, lane: 1 }] }, perform() {} })
    await env.lockstep.enqueue(definition(1), { id: 'a', tenant: 't' })
    const rules = (over: number) => ({ window: 60, rules: [{ over, per: 60, lane: 1 }] })
    expect(await rulesOf('rules')).toEqual(rules(1))
    await env.lockstepAnew().enqueue(definition(2), { id: 'b', tenant: 't' })
    expect(await rulesOf('rules')).toEqual(rules(1))
    const messages: unknown[][] = []
    const logger = { ...console, debug() {}, info: (...told: unknown[]) => messages.push(told) }
    const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
    for (const over of [3, 3, 4]) {
      const worker = lockstep.createWorker({ queues: [definition(over)] })
      await worker.start()
      await worker.stop()
      expect(await rulesOf('rules')).toEqual(rules(over))
    }
    await lockstep.close()
    expect(messages.filter(([, text]) => /other rules/.test(`${text}`))).toHaveLength(2)
  })
})
