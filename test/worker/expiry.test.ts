import { expect, test } from 'vitest'
import { z } from 'zod'
import { defineQueue, type Queue } from '../../src/index.ts'
import { Instruments } from '../../src/instruments.ts'
import { silentLogger } from '../../src/logger.ts'
import type { Round } from '../../src/store/claim.ts'
import { performBatch } from '../../src/worker/performing/batch.ts'
import { Abort } from '../../src/worker/performing/perform.ts'
import type { BatchSettings } from '../../src/worker/performing/transaction.ts'
import type { Claimant } from '../../src/worker/settling/claimant.ts'
import type { Outcome, Settler } from '../../src/worker/settling/outcome.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const inAnHour = () => Date.now() + 3_600_000

async function letExpire(id: string): Promise<void> {
  for (const [table, column] of [
    ['jobs', 'id'],
    ['payloads', 'job_id'],
  ])
    await env.sql(
      `UPDATE lockstep.${table} SET expires_in = now() - interval '1 minute' WHERE ${column} = $1 AND expires_in IS NOT NULL`,
      [id],
    )
}

test.each(['plain', 'transactional'])(
  'R17 a %s queue hands over what has not expired, and nothing else',
  async (kind) => {
    const handed: unknown[] = []
    const middleware: string[] = []
    const perform = async (batch: ReadonlyMap<string, readonly unknown[]>) =>
      void handed.push(Object.fromEntries(batch))
    const queue =
      kind === 'plain' ? env.queue({ shards: 1, perform }) : env.transactional({ shards: 1, perform })
    await env.lockstep.enqueue(queue, [
      { id: 'all', payload: 1, expiresIn: inAnHour() },
      { id: 'some', payload: 1, score: 1, expiresIn: inAnHour() },
      { id: 'some', payload: 2, score: 2 },
      { id: 'past', payload: 1, expiresIn: Date.now() - 1 },
      { id: 'yet', payload: 1, expiresIn: inAnHour() },
    ])
    for (const id of ['all', 'some']) await letExpire(id)
    const worker = env.create({
      queues: [queue],
      middleware: [
        async ({ batch }, next) => {
          middleware.push(...batch.keys())
          await next()
        },
      ],
    })
    const expired: number[] = []
    worker.on('expired', ({ queue: name, payloads }) => name === queue.name && expired.push(payloads))
    await worker.start()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(handed).toEqual(expect.arrayContaining([{ some: [2] }, { yet: [1] }]))
    expect(handed).toHaveLength(2)
    expect(middleware.sort()).toEqual(['some', 'yet'])
    await eventually(() => expect(expired.reduce((sum, one) => sum + one, 0)).toBe(3))
    await worker.stop()
    const [stats] = (await env.lockstep.stats()).queues.filter((one) => one.queue === queue.name)
    expect(stats).toMatchObject({ processed: 2, failed: 0, expired: 3 })
  },
)

test('R17 what expires while it waits for its next try is not tried again', async () => {
  let runs = 0
  const queue = env.queue({
    retryIn: () => 0.2,
    perform: async () => {
      runs += 1
      await letExpire('once')
      throw new Error('once')
    },
  })
  const worker = env.create({ queues: [queue] })
  const gone = next(worker, 'expired')
  await env.lockstep.enqueue(queue, { id: 'once', expiresIn: inAnHour() })
  await worker.start()
  expect(await gone).toEqual({ queue: queue.name, payloads: 1 })
  expect(runs).toBe(1)
  expect(await env.jobs(queue)).toBe(0)
})

test('R17 a worker removes what has expired of a paused queue, by itself', { tags: 'slow' }, async () => {
  const queue = env.queue({ perform: async () => {} })
  const worker = env.create({ queues: [queue] })
  await env.lockstep.enqueue(queue, [{ id: 'paused', payload: 1, expiresIn: Date.now() - 1 }])
  await env.lockstep.pause(queue)
  const gone = next(worker, 'expired')
  await worker.start()
  expect(await gone).toEqual({ queue: queue.name, payloads: 1 })
  expect(await env.jobs(queue)).toBe(0)
})

test('P5 R17 what expires in work takes nothing from what is pushed meanwhile', async () => {
  const [began, end] = [new Gate(), new Gate()]
  const handed: unknown[] = []
  const queue = env.queue({
    perform: async (batch) => {
      handed.push([...batch.values()][0])
      began.open()
      await end.opened
    },
  })
  await env.work({ queues: [queue] })
  await env.lockstep.enqueue(queue, { id: 'busy', payload: 1, expiresIn: inAnHour() })
  await began.opened
  await letExpire('busy')
  await env.lockstep.enqueue(queue, { id: 'busy', payload: 2 })
  end.open()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(handed).toEqual([[1], [2]])
})

/** Rounds as a claim brings them, and what came of their batch at certain times of the server's clock. */
function batchOf(queue: Queue, payloads: Readonly<Record<string, readonly (number | null)[]>>) {
  const rounds = Object.entries(payloads).map(
    ([id, expiries]): Round =>
      ({
        ...{
          id,
          fence: 1,
          performIn: 0,
          retryCount: -1,
          crashes: 0,
          rescued: false,
          error: null,
          tenant: null,
        },
        ...{
          toLoad: false,
          payloads: expiries.map((_, index) => index),
          scores: expiries.map((_, index) => index),
        },
        ...{
          seqs: expiries.map((_, index) => index),
          headers: undefined,
          expiries,
          expired: 0,
          size: 1,
          cut: undefined,
        },
      }) as Round,
  )
  const outcome = { completed: [] as string[], failed: [] as string[], expired: 0 }
  const settler: Settler = {
    settle(_, { completed, failed }: Outcome) {
      outcome.completed.push(...completed.map(({ id, scores }) => `${id} ${scores}`))
      outcome.failed.push(...failed.map(({ round }) => round.id))
      outcome.expired += completed.reduce((sum, { expired }) => sum + expired, 0)
    },
    crashed() {},
    stored: (claimant, all) => settler.settle(claimant, all),
  }
  const clock = { time: 0, now: () => clock.time }
  const run = (settings: Partial<Record<keyof BatchSettings, unknown>> = {}) =>
    performBatch(
      {
        middleware: [],
        logger: silentLogger,
        instruments: new Instruments([], silentLogger),
        clock,
        ...settings,
      } as BatchSettings,
      settler,
      { served: { queue, queueId: 1 } } as Claimant,
      { queue, rounds, abort: new Abort(), describe: String, holdsLease: () => true },
    )
  return { run, clock, outcome }
}

test('R17 a batch that was claimed ahead is looked at again right before its handler', async () => {
  const handed: unknown[] = []
  const queue = defineQueue('ahead', { perform: async (batch) => void handed.push([...batch]) }) as Queue
  const { run, clock, outcome } = batchOf(queue, { a: [100, null], b: [100], c: [200] })
  clock.time = 100
  await run()
  expect(handed).toEqual([
    [
      ['a', [1]],
      ['c', [0]],
    ],
  ])
  expect(outcome).toEqual({ completed: ['b ', 'a 1', 'c 0'], failed: [], expired: 2 })
})

test('R17 what expires while the schema is asked is not handed over, and what had expired before is not asked about', async () => {
  const asked = new Set<unknown>()
  const handed: unknown[] = []
  const { clock, run, outcome } = batchOf(
    defineQueue('schema', {
      schema: z.number().refine(async (payload) => {
        asked.add(payload)
        clock.time = 100
        return true
      }),
      perform: async (batch) => void handed.push([...batch]),
    }) as unknown as Queue,
    { a: [10, 100, null], b: [100] },
  )
  clock.time = 50
  await run()
  expect([...asked]).toEqual([1, 2, 0])
  expect(handed).toEqual([[['a', [2]]]])
  expect(outcome).toEqual({ completed: ['b ', 'a 2'], failed: [], expired: 3 })
})

test('R17 what expires while a transaction begins is not handed over: the batch begins anew, without it', async () => {
  const handed: unknown[] = []
  const queue = defineQueue('late', {
    transactional: true,
    perform: async (batch) => void handed.push([...batch]),
  }) as Queue
  const { run, clock, outcome } = batchOf(queue, { a: [100], b: [200, null] })
  let begun = 0
  const lender = {
    async lend(_: Queue, work: (lent: object) => Promise<unknown>) {
      begun += 1
      clock.time += 100
      if (begun > 2) throw new Error('no connection')
      return work({ end() {}, abort() {} })
    },
  }
  clock.time = 50
  await run({ lender })
  expect(begun).toBe(3)
  expect(handed).toEqual([])
  expect(outcome.completed).toEqual(['a '])
})
