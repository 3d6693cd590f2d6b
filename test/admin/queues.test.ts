import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { resolveQueue } from '../../src/admin/queues.ts'
import { type Instrumentation, Lockstep, OptionError, type Progress } from '../../src/index.ts'
import { Database } from '../../src/postgres/database.ts'
import { countStrays } from '../../src/store/queue.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'
import { Gate, next, useWorkers } from '../support/worker-environment.ts'

const FUTURE = Date.parse('2040-01-01T00:00:00Z')

let store: StoreEnvironment

beforeAll(async () => {
  store = await openStore()
})
afterEach(() => store.endSessions())
afterAll(() => store?.close())

const env = useWorkers()

/** Counts what its statements have brought. */
class CountingRows extends Database {
  rows = 0

  override async query<Row>(...call: Parameters<Database['query']>): Promise<Row[]> {
    const rows = await super.query<Row>(...call)
    this.rows += rows.length
    return rows
  }
}

describe('R11 pause and resume', () => {
  test('keep the time of the first pause, and stop claims', async () => {
    const testQueue = await store.queue()
    await testQueue.push({ id: 'a' })
    const claimer = await testQueue.claimer()
    await store.lockstep.pause(testQueue.queue)
    const [first] = (await store.lockstep.stats()).queues
    expect(first!.pausedAt).toBeInstanceOf(Date)
    await store.lockstep.pause(testQueue.queue.name)
    expect((await store.lockstep.stats()).queues[0]!.pausedAt).toEqual(first!.pausedAt)
    expect((await claimer.claim()).rounds).toEqual([])
    await store.lockstep.resume(testQueue.queue)
    expect((await store.lockstep.stats()).queues[0]!.pausedAt).toBeNull()
    await claimer.take()
    await expect(store.lockstep.resume('nowhere')).rejects.toMatchObject({ code: 'LOCKSTEP_UNKNOWN_QUEUE' })
  })

  test('are seen by a running worker: what runs goes on, nothing starts, and then at once', async () => {
    const done: string[] = []
    const queue = env.queue({ shards: 2, perform: (batch) => void done.push(...batch.keys()) })
    // No poll and no rebalance interval comes in time, so the worker must be notified.
    await env.lockstep.enqueue(queue, { id: 'before' })
    const other = env.queue({ perform: (batch) => void done.push(...batch.keys()) })
    const worker = await env.work({ queues: [queue, other], poll: 60_000, rebalanceInterval: 60_000 })
    await until(() => expect(done).toEqual(['before']))

    await env.lockstep.pause(queue)
    await env.lockstep.enqueue(queue, [{ id: 'meanwhile' }, { id: 'too' }])
    // Jobs pushed later into another queue are performed. By then, the paused ones would have been performed too.
    for (const id of ['first', 'second', 'third']) {
      await env.lockstep.enqueue(other, { id })
      await until(() => expect(done).toContain(id))
    }
    expect(done).toEqual(['before', 'first', 'second', 'third'])
    done.length = 0

    const started = next(worker, 'started')
    await env.lockstep.resume(queue)
    await started
    await until(() => expect(done.toSorted()).toEqual(['meanwhile', 'too']))
  })
})

test('P7: what waits in a paused queue is not asked for', async () => {
  const claims: string[] = []
  let isPaused = false
  let isKnown = false
  const instrument: Instrumentation = {
    claim: ({ queue }) => void claims.push(queue),
    rebalance: () => {
      const begunPaused = isPaused
      return () => {
        isKnown ||= begunPaused
      }
    },
  }
  const { connectionString, logger } = env
  const lockstep = new Lockstep({ connectionString, logger, instrumentation: [instrument] })
  env.later(() => lockstep.close())
  const gate = new Gate()
  const queue = env.queue({ perform: () => gate.opened })
  const other = env.queue({ perform() {} })
  const worker = env.create({ queues: [queue, other], rebalanceInterval: 50, slots: 1 }, lockstep)
  await worker.start()
  const started = next(worker, 'started')
  await lockstep.enqueue(
    queue,
    Array.from({ length: 64 }, (_, n) => ({ id: `id ${n}` })),
  )
  await started
  // The only slot is busy, and every shard has something due.
  await lockstep.pause(queue)
  isPaused = true
  await until(() => expect(isKnown).toBe(true))
  claims.length = 0
  gate.open()
  for (const id of ['a', 'b', 'c']) {
    const completed = next(worker, 'completed', ({ ids }) => ids.includes(id))
    await lockstep.enqueue(other, { id })
    await completed
  }
  expect(claims).toContain(other.name)
  expect(claims).not.toContain(queue.name)

  await lockstep.resume(queue)
  await until(async () => expect(await env.jobs(queue)).toBe(0))
})

/** The shards in use. */
async function shardsOf(testQueue: TestQueue): Promise<number[]> {
  const rows = await store.query<{ shard: number }>(
    'SELECT j.shard FROM lockstep.jobs j WHERE j.queue_id = $1 ORDER BY j.shard',
    [testQueue.queueId],
  )
  return [...new Set(rows.map(({ shard }) => shard))]
}

const ids = (count: number, prefix = '') =>
  Array.from({ length: count }, (_, n) => ({ id: `${prefix}${n}`, performIn: FUTURE }))

describe('R11 reshard', () => {
  test('up moves nothing, and new ids use all shards', async () => {
    const testQueue = await store.queue({ shards: 2 })
    await testQueue.push(...ids(30))
    const seen: Progress[] = []
    for await (const progress of store.lockstep.reshard(testQueue.queue, 8)) seen.push(progress)
    expect(seen).toEqual([{ done: 0, total: 0 }])
    expect(await shardsOf(testQueue)).toEqual([0, 1])
    await testQueue.push(...ids(100, 'new'))
    expect(await shardsOf(testQueue)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  })

  test('down moves the jobs of the shards that go, in chunks, rows in work among them', async () => {
    const testQueue = await store.queue({ shards: 10 })
    await testQueue.push(...ids(100))
    await store.query(
      'UPDATE lockstep.jobs SET perform_in = clock_timestamp() WHERE queue_id = $1 AND shard = 7',
      [testQueue.queueId],
    )
    const claimer = await testQueue.claimer()
    const { rounds } = await claimer.claim({ shard: 7, batchSize: 100 })
    expect(rounds.length).toBeGreaterThan(3)
    const strays = (
      await store.query(`SELECT FROM lockstep.jobs WHERE queue_id = $1 AND shard >= 3`, [testQueue.queueId])
    ).length

    const seen: Progress[] = []
    for await (const progress of store.lockstep.reshard(testQueue.queue, 3, { chunk: 20 }))
      seen.push(progress)
    expect(seen[0]).toEqual({ done: 0, total: strays })
    expect(seen[1]).toEqual({ done: 20, total: strays })
    expect(seen.at(-1)).toEqual({ done: strays, total: strays })
    expect(await shardsOf(testQueue)).toEqual([0, 1, 2])

    expect(await claimer.complete(...rounds)).toEqual([])
    expect(await testQueue.countJobs()).toBe(100 - rounds.length)
    expect(await store.lockstep.reshard(testQueue.queue, 3)).toEqual({ done: 0, total: 0 })
  })

  test('waits for rows that a producer holds, moving all others', async () => {
    const testQueue = await store.queue({ shards: 10 })
    await testQueue.push(...ids(60))
    const [{ id }] = (await store.query(`SELECT id FROM lockstep.jobs WHERE queue_id = $1 AND shard = 9`, [
      testQueue.queueId,
    ])) as [{ id: string }]
    const producer = await store.transaction()
    await testQueue.pushIn(producer, { id, payload: 'more' })
    const seen: Progress[] = []
    const waits: number[] = []
    const running = (async () => {
      let last = performance.now()
      for await (const progress of store.lockstep.reshard(testQueue.queue, 1)) {
        if (progress.done === seen.at(-1)?.done) waits.push(performance.now() - last)
        last = performance.now()
        seen.push(progress)
      }
    })()
    await until(() => expect(waits.length).toBeGreaterThan(3))
    // It asks less and less often, and not all the time.
    expect(waits[3]).toBeGreaterThan(100)
    expect(seen.at(-1)!.done).toBe(seen[0]!.total - 1)
    await producer.query('COMMIT')
    await running
    expect(seen.at(-1)!.done).toBe(seen[0]!.total)
    expect(await shardsOf(testQueue)).toEqual([0])
  })

  test('can be stopped while it waits, and finished by calling it again', async () => {
    const testQueue = await store.queue({ shards: 10 })
    await testQueue.push(...ids(60))
    const producer = await store.transaction()
    await producer.query('SELECT FROM lockstep.jobs WHERE queue_id = $1 FOR UPDATE', [testQueue.queueId])
    const stop = new AbortController()
    let steps = 0
    const running = (async () => {
      for await (const _ of store.lockstep.reshard(testQueue.queue, 2, { signal: stop.signal })) {
        steps += 1
        if (steps === 3) stop.abort(new Error('enough'))
      }
    })()
    await expect(running).rejects.toThrow('enough')
    await producer.query('ROLLBACK')
    const left = await countStrays(store.database, testQueue.queueId)
    expect(left).toBeGreaterThan(0)
    expect(await store.lockstep.reshard(testQueue.queue, 2)).toEqual({ done: left, total: left })
  })

  test('leaves what a producer commits later with the old number to the workers', async () => {
    const performed: string[] = []
    const queue = env.queue({ shards: 8, perform: (batch) => void performed.push(...batch.keys()) })
    const names = Array.from({ length: 20 }, (_, n) => `id ${n}`)
    const producer = await env.session()
    await env.lockstep.enqueue(queue, { id: 'first' })
    await producer.query('BEGIN')
    await env.lockstep.enqueue(
      queue,
      names.map((id) => ({ id })),
      { tx: producer },
    )
    await env.lockstep.reshard(queue, 1)
    await env.work({ queues: [queue], rebalanceInterval: 100 })
    await until(() => expect(performed).toEqual(['first']))
    await producer.query('COMMIT')
    await until(() => expect(performed.toSorted()).toEqual(['first', ...names].toSorted()))
  })

  test('and workers that move strays as well end together', async () => {
    const queue = env.queue({ shards: 50, perform: () => {} })
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 2_000 }, (_, n) => ({ id: n, performIn: FUTURE })),
    )
    await env.work({ queues: [queue], rebalanceInterval: 50 })
    const { done, total } = await env.lockstep.reshard(queue, 1, { chunk: 100 })
    expect(done).toBe(total)
    const rows = await env.sql(
      'SELECT FROM lockstep.jobs JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 AND shard > 0',
      [queue.name],
    )
    expect(rows).toEqual([])
  })

  test.each([0, 16_385, 1.5, '3', undefined])('%j shards are refused', async (shards) => {
    const testQueue = await store.queue()
    expect(() => store.lockstep.reshard(testQueue.queue, shards as number)).toThrow(OptionError)
  })
})

describe('R11 a queue is found by its name', () => {
  test('without reading the others', async () => {
    const { name } = (await store.queue()).queue
    await store.queue()
    const database = new CountingRows(store.database.pool, store.database.schema)
    expect(await resolveQueue(database, name)).toMatchObject({ name })
    expect(database.rows).toBe(1)
  })

  test.each(['a\0b', '\ud800'])(
    '%j, which Postgres can’t hold, is unknown and breaks no transaction',
    async (name) => {
      const tx = await store.transaction()
      await expect(store.lockstep.find(name, {}, { tx })).rejects.toMatchObject({
        code: 'LOCKSTEP_UNKNOWN_QUEUE',
      })
      expect((await tx.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
      await tx.query('ROLLBACK')
    },
  )
})
