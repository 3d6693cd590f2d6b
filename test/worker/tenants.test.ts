import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Batch } from '../../src/handler.ts'
import {
  type Candidate,
  fair,
  Lockstep,
  type Queue,
  type Scheduler,
  type TakenJob,
  type Worker,
  weighted,
} from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { ensureQueue } from '../../src/store/queue.ts'
import { TenantLanes } from '../../src/worker/maintenance/tenant-lanes.ts'
import { othersAvoid, pileUp } from '../support/newcomers.ts'
import { shardsHeld } from '../support/shards.ts'
import { eventually, Gate, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** ms */
const HANDLER = 50
const slowly = () => sleep(HANDLER)
/** ms between full looks, which would find any lane: none comes within a test. */
const RARELY = 600_000

/** Pushes jobs of a tenant, whose name their ids begin with; of nobody if the tenant has no name. */
async function push(queue: Queue, tenant: string, count: number, lane?: number): Promise<void> {
  const jobs = Array.from({ length: count }, (_, nth) => ({
    id: `${tenant}:${nth}:${lane ?? ''}`,
    tenant: tenant || null,
    lane,
  }))
  await env.lockstep.enqueue(queue, jobs)
}

/** The tenants of the jobs that workers start, in order. */
function startsOf(...workers: readonly Worker[]): string[] {
  const starts: string[] = []
  for (const worker of workers)
    worker.on('started', ({ ids }) => starts.push(...ids.map((id) => id.split(':')[0]!)))
  return starts
}

const shareOf = (starts: readonly string[], tenant: string) =>
  starts.filter((one) => one === tenant).length / starts.length

/** ms from the moment at which a job of a tenant was pushed until it starts. */
async function timeToStart(queue: Queue, worker: Worker, tenant: string): Promise<number> {
  const started = new Promise<number>((resolve) => {
    worker.on(
      'started',
      ({ ids }) => ids.some((id) => id.startsWith(`${tenant}:`)) && resolve(performance.now()),
    )
  })
  await push(queue, tenant, 1)
  const pushedAt = performance.now()
  return (await started) - pushedAt
}

describe('R13: tenants share lane 0', () => {
  test('a scheduler sees lane 0 of each, and which of the tenants’ lanes it is, and what was taken', async () => {
    const queue = env.queue({ shards: 2, batchSize: 3, perform() {} })
    await push(queue, 'a', 5)
    await push(queue, 'b', 5)
    await push(queue, '', 5)
    await push(queue, 'c', 5, 4)
    const seen = new Map<string, Candidate>()
    const taken: (readonly [Candidate, readonly TakenJob[]])[] = []
    let picks = 0
    const scheduler: Scheduler = {
      pick(candidates) {
        for (const one of candidates) seen.set(`${one.lane} ${one.tenantLane}`, one)
        picks += 1
        return candidates[0]
      },
      took(candidate, jobs) {
        taken.push([candidate, jobs])
      },
    }
    const worker = await env.work({ queues: [queue], slots: 1, scheduler })
    await eventually(() => expect(taken.flatMap(([, jobs]) => jobs)).toHaveLength(20))
    await worker.stop()
    const lanes = [...seen.values()].map(({ lane, tenantLane }) => ({ lane, tenantLane }))
    const ofTenants = lanes.filter(({ tenantLane }) => tenantLane !== undefined)
    expect(ofTenants).toHaveLength(2)
    for (const { lane, tenantLane } of ofTenants) {
      expect(lane).toBe(0)
      expect(tenantLane).toBeGreaterThanOrEqual(-32)
      expect(tenantLane).toBeLessThan(0)
    }
    expect(lanes).toContainEqual({ lane: 0, tenantLane: undefined })
    expect(lanes).toContainEqual({ lane: 4, tenantLane: undefined })
    // Once for each pick, with the tenants.
    expect(taken).toHaveLength(picks)
    for (const [{ lane, tenantLane }, jobs] of taken) {
      const tenants = new Set(jobs.map(({ tenant }) => tenant))
      if (jobs.length === 0) continue
      expect(tenants.size).toBe(1)
      if (lane === 4) expect(tenants).toEqual(new Set(['c']))
      else expect(tenants.has(null)).toBe(tenantLane === undefined)
    }
  })

  test('one whose `took` throws, or is rejected, is told, and the slot goes on', async () => {
    const queue = env.queue({ shards: 1, perform() {} })
    await push(queue, 'a', 6)
    let calls = 0
    const scheduler = {
      pick: (candidates: readonly Candidate[]) => candidates[0],
      took() {
        calls += 1
        if (calls > 3) return Promise.reject(new Error('later'))
        throw new Error('miscounted')
      },
    } as Scheduler
    const worker = env.create({ queues: [queue], slots: 1, scheduler })
    const failures: unknown[] = []
    worker.on('failure', (error) => failures.push(error))
    await worker.start()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(failures).toEqual(Array(3).fill(new Error('miscounted')))
    expect(env.warnings).toEqual([
      {
        fields: { error: expect.stringContaining('miscounted') },
        message: 'the scheduler failed to count jobs',
      },
    ])
  })

  test('a `took` that is no method is refused', () => {
    const scheduler = { pick: () => undefined, took: 5 } as never
    expect(() => env.create({ queues: [env.queue({ perform() {} })], scheduler })).toThrow(
      'scheduler.took must be a method, not 5',
    )
  })

  test.each([
    ['fair', () => fair(), { a: 1 / 3, b: 1 / 3, c: 1 / 3 }],
    [
      'fair by weight',
      () => fair({ weight: (tenant) => (tenant === 'a' ? 2 : 1) }),
      { a: 1 / 2, b: 1 / 4, c: 1 / 4 },
    ],
    ['weighted', () => weighted({}), { a: 1 / 3, b: 1 / 3, c: 1 / 3 }],
  ] as const)('%s: though one has pushed all of its jobs before the others', async (_, scheduler, shares) => {
    const queue = env.queue({ perform: () => sleep(10) })
    for (const tenant of ['a', 'b', 'c']) await push(queue, tenant, 150)
    const worker = env.create({ queues: [queue], slots: 4, scheduler: scheduler() })
    const starts = startsOf(worker)
    await worker.start()
    await eventually(() => expect(starts.length).toBeGreaterThan(240))
    for (const [tenant, share] of Object.entries(shares)) {
      expect(shareOf(starts.slice(0, 240), tenant)).toBeGreaterThan(share - 0.08)
      expect(shareOf(starts.slice(0, 240), tenant)).toBeLessThan(share + 0.08)
    }
  })

  test('a weight function that throws is told once, and all are served', async () => {
    const queue = env.queue({ perform() {} })
    for (const tenant of ['a', 'b']) await push(queue, tenant, 20)
    const weight = () => {
      throw new Error('no such tenant')
    }
    await env.work({ queues: [queue], scheduler: fair({ weight }) })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(env.warnings).toEqual([
      {
        fields: {
          error: expect.stringMatching(
            /fair: the weight of tenant "[ab]" .* counts as 1\n(.*\n)*.*no such tenant/,
          ),
        },
        message: 'the scheduler failed to count jobs',
      },
    ])
  })

  test.each([
    ['fair', () => fair(), 1 / 2, 1 / 3],
    ['weighted', ({ name }: Queue) => weighted({ [name]: { 0: 6, 1: 2 } }), 3 / 4, 1 / 4],
  ] as const)(
    '%s: by the job where handlers are so quick that much is prefetched, and one lane has larger batches',
    async (_, scheduler, ofLane0, ofLane1) => {
      const perform = (batch: ReadonlyMap<string, unknown>) => void batch
      const queue = env.queue({ shards: 4, batchSize: 10, perform })
      await push(queue, '', 3_000)
      await push(queue, '', 3_000, 1)
      const starts: string[] = []
      const worker = env.create({ queues: [queue], slots: 1, scheduler: scheduler(queue) })
      worker.on('started', ({ ids }) =>
        starts.push(...ids.map((id) => (id.endsWith(':1') ? 'slow' : 'fast'))),
      )
      await worker.start()
      await eventually(() => expect(starts.length).toBeGreaterThan(3_000))
      const slow = shareOf(starts.slice(0, 3_000), 'slow')
      expect(slow).toBeGreaterThan(ofLane1 - 0.08)
      expect(slow).toBeLessThan(1 - ofLane0 + 0.08)
    },
  )

  test('over several processes, and while shards move from one to the other', { tags: 'slow' }, async () => {
    const queue = env.queue({ shards: 8, perform: () => sleep(10) })
    for (const tenant of ['a', 'b', 'c']) await push(queue, tenant, 400)
    const others = Array.from({ length: 2 }, () => {
      const lockstep = new Lockstep({ connectionString: env.connectionString, logger: env.logger })
      env.later(() => lockstep.close())
      return lockstep
    })
    const options = { queues: [queue], slots: 2, rebalanceInterval: 50 }
    const workers = [env.create(options), ...others.map((lockstep) => env.create(options, lockstep))] as [
      Worker,
      Worker,
      Worker,
    ]
    const starts = startsOf(...workers)
    await workers[0].start()
    await eventually(() => expect(starts.length).toBeGreaterThan(100))
    await workers[1].start()
    await workers[2].start()
    await eventually(async () => {
      for (const { processId } of workers)
        expect((await shardsHeld(env, processId, queue)).length).toBeGreaterThanOrEqual(2)
    })
    const before = starts.length
    await eventually(() => expect(starts.length).toBeGreaterThan(before + 200))
    await workers[1].stop()
    await eventually(() => expect(starts.length).toBeGreaterThan(before + 400))
    // By then each still has jobs that wait.
    for (const tenant of ['a', 'b', 'c']) {
      expect(shareOf(starts.slice(0, 900), tenant)).toBeGreaterThan(0.25)
      expect(shareOf(starts.slice(0, 900), tenant)).toBeLessThan(0.42)
    }
  })
})

describe('R13: no tenant waits behind the backlog of another', () => {
  test('one job after 10,000 of another starts within the time of a handler and a claim', async () => {
    const queue = env.queue({ perform: slowly })
    await push(queue, 'full', 10_000)
    const worker = await env.work({ queues: [queue], slots: 5, poll: RARELY })
    await eventually(() => expect(worker.report()).toHaveLength(5))
    const times: number[] = []
    for (const tenant of ['b', 'c', 'd', 'e', 'f']) times.push(await timeToStart(queue, worker, tenant))
    // A loaded machine may delay some.
    expect(Math.min(...times)).toBeLessThan(2 * HANDLER)
    expect(Math.max(...times)).toBeLessThan(10 * HANDLER)
  })

  test('also the first job of any tenant, after 2,000 of nobody in particular, and with one shard', async () => {
    const queue = env.queue({ shards: 1, perform: slowly })
    await push(queue, '', 2_000)
    const worker = await env.work({ queues: [queue], slots: 5, poll: RARELY })
    await eventually(() => expect(worker.report()).toHaveLength(5))
    expect(await timeToStart(queue, worker, 'a')).toBeLessThan(10 * HANDLER)
  })

  test.each([1, 4])('also where the queue has no more than %s slots of them all', async (concurrency) => {
    const queue = env.queue({ concurrency, perform: slowly })
    await push(queue, 'full', 2_000)
    const worker = await env.work({ queues: [queue], slots: 5, poll: RARELY })
    await eventually(() => expect(worker.report()).toHaveLength(concurrency))
    const times: number[] = []
    for (const tenant of ['b', 'c', 'd']) times.push(await timeToStart(queue, worker, tenant))
    expect(Math.max(...times)).toBeLessThan(10 * HANDLER)
  })

  test('also the last of 32, whose lanes are all polled in all shards', async () => {
    const queue = env.queue({ perform: slowly })
    await push(queue, 'full', 2_000)
    const worker = await env.work({ queues: [queue], slots: 5, poll: RARELY })
    await eventually(() => expect(worker.report()).toHaveLength(5))
    for (let tenant = 2; tenant <= 31; tenant += 1) await push(queue, `tenant-${tenant}`, 1)
    expect(await timeToStart(queue, worker, 'last')).toBeLessThan(20 * HANDLER)
    expect(await timeToStart(queue, worker, 'last')).toBeLessThan(10 * HANDLER)
  })
})

test('a worker tells producers where jobs of tenants wait: others share no such lane', async () => {
  const queue = env.queue({ shards: 2, perform: () => sleep(200) })
  const backlog = await pileUp(env, queue)
  await env.work({ queues: [queue], slots: 1 })
  await othersAvoid(env, queue, backlog)
})

test('a lane that holds jobs of a later time is not given back', async () => {
  const queue = env.queue({ shards: 2, perform() {} })
  const performIn = new Date(Date.now() + 3_600_000)
  await env.lockstep.enqueue(queue, { id: 'a', tenant: 'scheduled', performIn })
  await env.work({ queues: [queue] })
  await eventually(async () => {
    const told = await env.sql(
      `SELECT FROM lockstep.tenant_waits w JOIN lockstep.queues q USING (queue_id)
       JOIN lockstep.tenant_lanes t USING (queue_id) WHERE q.name = $1 AND t.tenant = 'scheduled' AND w.waits[-t.lane] = 1`,
      [queue.name],
    )
    expect(told).not.toEqual([])
  })
  await env.sql(`UPDATE lockstep.tenant_lanes SET given_at = given_at - interval '2 minutes'`)
  await env.sql('SELECT lockstep.trim_tenant_lanes()')
  const left = await env.sql(
    `SELECT tenant FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 AND tenant <> ''`,
    [queue.name],
  )
  expect(left).toEqual([{ tenant: 'scheduled' }])
})

test('whose jobs fill a lane is told of it, not whose was claimed last', async () => {
  const gate = new Gate()
  const perform = async (batch: Batch<unknown>) => {
    if (batch.has('light')) await gate.opened
  }
  // So that one job is claimed at a time.
  const queue = env.queue({ shards: 1, limits: { concurrency: 1 }, perform })
  const due = (second: number) => new Date(Date.now() - 60_000 + second * 1_000)
  const heavy = (from: number) =>
    Array.from({ length: 10 }, (_, n) => ({
      id: `heavy ${from + n}`,
      tenant: 'heavy',
      performIn: due(from + n),
    }))
  await env.lockstep.enqueue(queue, heavy(0))
  await env.sql(
    `INSERT INTO lockstep.tenant_lanes (number, given_at, queue_id, lane, tenant)
     SELECT nextval('lockstep.tenants'), now(), t.queue_id, t.lane, 'light' FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id)
     WHERE q.name = $1`,
    [queue.name],
  )
  await env.lockstep.enqueue(queue, { id: 'light', tenant: 'light', performIn: due(10) })
  await env.lockstep.enqueue(queue, heavy(11))
  await env.work({ queues: [queue], slots: 1 })
  env.later(() => gate.open())
  await eventually(async () => {
    const told = await env.sql(
      `SELECT w.tenants[-t.lane] = hashtext('heavy')::text AS "isHeavy" FROM lockstep.tenant_waits w JOIN lockstep.queues q USING (queue_id)
       JOIN lockstep.tenant_lanes t USING (queue_id) JOIN lockstep.jobs j ON j.queue_id = w.queue_id AND j.id = 'light'
       WHERE q.name = $1 AND t.tenant = 'heavy' AND j.claimed_by IS NOT NULL AND w.told_at > j.claimed_at ORDER BY w.told_at DESC LIMIT 1`,
      [queue.name],
    )
    expect(told).toEqual([{ isHeavy: true }])
  })
})

test('a process gives back lanes of the queues that it has served for a while, and no others', async () => {
  const database = new Database(env.pool, 'lockstep')
  const [served, other] = [env.queue({}), env.queue({})]
  await push(served, 'a', 1)
  await push(other, 'b', 1)
  await env.sql(`UPDATE lockstep.tenant_lanes SET given_at = given_at - interval '2 minutes'`)
  const queueId = await ensureQueue(database, served.name, served.shards)
  const lanes = new TenantLanes({ ledQueues: () => [{ queueId, queue: served, hasTenants: true }] })
  const holders = async () => {
    const rows = await env.sql<{ tenant: string }>(
      `SELECT tenant FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id) WHERE q.name = ANY ($1) AND tenant <> '' ORDER BY tenant`,
      [[served.name, other.name]],
    )
    return rows.map(({ tenant }) => tenant)
  }
  await lanes.run(database)
  expect(await holders()).toEqual(['a', 'b'])
  await lanes.run(database)
  expect(await holders()).toEqual(['b'])
})
