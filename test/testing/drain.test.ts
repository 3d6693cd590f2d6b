import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { transactionsOf } from '../../src/adapters/drizzle.ts'
import { type Batch, Discard, defineQueue, Lockstep, Snooze } from '../../src/index.ts'
import { advance, assertEnqueued, drain, enqueued } from '../../src/testing/index.ts'
import { createMigrated, type TestDatabase } from '../support/database.ts'

const AN_HOUR = 3_600

let database: TestDatabase
let pool: pg.Pool
let lockstep: Lockstep
let queues = 0
const undo: (() => unknown)[] = []

beforeAll(async () => {
  database = await createMigrated()
  pool = new pg.Pool({ connectionString: database.connectionString, max: 5 })
  lockstep = new Lockstep({ connectionString: database.connectionString })
  await pool.query('CREATE TABLE written (id text)')
})
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one()
  await pool.query('TRUNCATE written')
  const { rows } = await pool.query('SELECT FROM lockstep.processes')
  expect(rows).toHaveLength(0)
})
afterAll(async () => {
  await lockstep?.close()
  await pool?.end()
  await database?.drop()
})

function name(): string {
  queues += 1
  return `queue ${queues}`
}

/** A queue whose handler notes what it gets. */
function noting(options: object = {}) {
  const runs: unknown[] = []
  const queue = defineQueue<unknown>(name(), {
    ...options,
    perform: (batch) => void runs.push(...[...batch].map(([id, payloads]) => [id, ...payloads])),
  })
  return { queue, runs }
}

async function transaction(): Promise<pg.PoolClient> {
  const client = await pool.connect()
  await client.query('BEGIN')
  undo.push(async () => {
    await client.query('ROLLBACK')
    client.release()
  })
  return client
}

const written = async () => (await pool.query('SELECT id FROM written ORDER BY id')).rows.map(({ id }) => id)

describe('drain', () => {
  test('performs all that is due, oldest first, each id with all its payloads, and nothing that is due later', async () => {
    const { queue, runs } = noting()
    await lockstep.enqueue(queue, [
      { id: 'later', payload: 1, performIn: Date.now() + 60_000 },
      { id: 'a', payload: 'v', score: 2, performIn: 2_000 },
      { id: 'b', payload: 'w', performIn: 1_000 },
      { id: 'a', payload: 'u', score: 1 },
    ])
    expect(await drain(lockstep, queue)).toEqual({
      completed: 2,
      snoozed: 0,
      dropped: 0,
      expired: 0,
      failed: [],
    })
    expect(runs).toEqual([
      ['b', 'w'],
      ['a', 'u', 'v'],
    ])
    expect(await enqueued(lockstep, queue)).toMatchObject([{ id: 'later' }])
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 0 })
  })

  test('R17 leaves out what has expired, and lets it expire as time passes', async () => {
    for (const future of [false, true]) {
      const { queue, runs } = noting({ retryIn: () => AN_HOUR })
      const now = Date.now()
      await lockstep.enqueue(queue, [
        { id: 'a', payload: 'gone', expiresIn: now - 1 },
        { id: 'b', payload: 'v', score: 1, expiresIn: now + AN_HOUR * 1_000 },
        { id: 'b', payload: 'w', score: 2, expiresIn: now - 1 },
        { id: 'later', payload: 'v', performIn: now + 60_000, expiresIn: now + 90_000 },
        { id: 'later still', payload: 'v', performIn: now + 60_000, expiresIn: now + 60_000 },
      ])
      const drained = await drain(lockstep, queue, { future })
      expect(drained).toMatchObject({ completed: future ? 2 : 1, expired: future ? 3 : 2, failed: [] })
      expect(runs).toEqual(
        future
          ? [
              ['b', 'v'],
              ['later', 'v'],
            ]
          : [['b', 'v']],
      )
      await advance(lockstep, queue, 100_000)
      expect(await drain(lockstep, queue)).toMatchObject({ completed: 0, expired: future ? 0 : 2 })
    }
  })

  test('includes what handlers push meanwhile, into other queues too', async () => {
    const { queue: second, runs } = noting()
    const first = defineQueue<number>(name(), {
      async perform(batch) {
        for (const [id, [left]] of batch) {
          if (left! > 0) await lockstep.enqueue(first, { id, payload: left! - 1 })
          else await lockstep.enqueue(second, { id, payload: 'done' })
        }
      },
    })
    await lockstep.enqueue(first, { id: 'a', payload: 3 })
    expect(await drain(lockstep, [first, second])).toMatchObject({ completed: 5 })
    expect(runs).toEqual([['a', 'done']])
  })

  test('a queue that nobody has used is empty; a paused one stays as it is', async () => {
    const { queue, runs } = noting()
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 0 })
    await lockstep.enqueue(queue, { id: 'a' })
    await lockstep.pause(queue)
    expect(await drain(lockstep, queue, { future: true })).toMatchObject({ completed: 0 })
    expect(runs).toEqual([])
  })

  test('rejects with what the handler threw, and the failure is stored', async () => {
    const thrown = new Error('no')
    const queue = defineQueue(name(), {
      retryIn: () => AN_HOUR,
      perform: () => {
        throw thrown
      },
    })
    await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
    await expect(drain(lockstep, queue)).rejects.toBe(thrown)
    const { items } = await lockstep.find(queue, { retryCount: { from: 0 } })
    expect(items).toMatchObject([{ retryCount: 0, state: 'waiting', error: expect.stringContaining('no') }])
  })

  test('with retries: tries at once until the jobs succeed or die, and onDeath hears of it', async () => {
    const onDeath = vi.fn()
    let runs = 0
    const queue = defineQueue(name(), {
      maxRetryCount: 2,
      retryIn: () => AN_HOUR,
      onDeath,
      perform: (batch) => {
        runs += 1
        if (batch.has('poor') || runs < 2) throw new Error('no')
      },
    })
    await lockstep.enqueue(queue, [
      { id: 'lucky', performIn: 1 },
      { id: 'poor', payload: 'v' },
    ])
    const { completed, failed } = await drain(lockstep, queue, { retries: true })
    expect(completed).toBe(1)
    expect(failed.map(({ id, retryIn }) => [id, retryIn])).toEqual(
      expect.arrayContaining([
        ['lucky', AN_HOUR],
        ['poor', AN_HOUR],
        ['poor', AN_HOUR],
        ['poor', null],
      ]),
    )
    expect(failed).toHaveLength(4)
    expect(onDeath).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ id: 'poor', payload: 'v' }))
    expect((await lockstep.findDead(queue)).items).toHaveLength(1)
  })

  test('with future: lets time pass, in the order of performIn', async () => {
    const { queue, runs } = noting()
    await lockstep.enqueue(queue, [
      { id: 'next year', performIn: Date.now() + 365 * 86_400_000 },
      { id: 'tomorrow', performIn: Date.now() + 86_400_000 },
    ])
    expect(await drain(lockstep, queue, { future: true })).toMatchObject({ completed: 2 })
    expect(runs).toEqual([
      ['tomorrow', ''],
      ['next year', ''],
    ])
  })

  test('snoozed jobs wait, unless time passes', async () => {
    let runs = 0
    const queue = defineQueue(name(), {
      perform: () => {
        runs += 1
        if (runs < 3) throw new Snooze(AN_HOUR)
      },
    })
    await lockstep.enqueue(queue, { id: 'a' })
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 0, snoozed: 1 })
    await advance(lockstep, queue, 3_599_000)
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 0, snoozed: 0 })
    expect(await drain(lockstep, queue, { future: true })).toMatchObject({ completed: 1, snoozed: 1 })
  })

  test('what never ends is told', { tags: 'slow' }, async () => {
    const queue = defineQueue(name(), {
      perform: () => {
        throw new Snooze(0)
      },
    })
    await lockstep.enqueue(queue, { id: 'a' })
    await expect(drain(lockstep, queue, { future: true })).rejects.toMatchObject({
      code: 'LOCKSTEP_ENDLESS',
      message: expect.stringContaining('id "a"'),
    })
  })

  test('batches, parts of a round, and payloads that are too large for a claim', async () => {
    const { queue, runs } = noting({ shards: 1, batchSize: 2, maxPayloads: 2 })
    await lockstep.enqueue(queue, [
      { id: 'a', payload: 1, score: 1 },
      { id: 'a', payload: 2, score: 2 },
      { id: 'a', payload: 3, score: 3 },
      { id: 'b', payload: 'x'.repeat(5_000_000) },
    ])
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 3 })
    expect(runs.map((run) => (run as unknown[]).length)).toEqual(expect.arrayContaining([3, 2, 2]))
  })

  test('middleware runs around each handler', async () => {
    const { queue, runs } = noting()
    await lockstep.enqueue(queue, { id: 'a' })
    const seen: unknown[] = []
    const middleware = [
      async ({ queue: { name } }: { queue: { name: string } }, next: () => Promise<unknown>) => {
        seen.push(name)
        await next()
      },
    ]
    await drain(lockstep, queue, { middleware })
    expect(seen).toEqual([queue.name])
    expect(runs).toHaveLength(1)
  })

  test('transactional handlers: exactly what they commit is there', async () => {
    const queue = defineQueue(name(), {
      transactional: true,
      shards: 1,
      batchSize: 2,
      retryIn: () => AN_HOUR,
      async perform(batch, { tx }) {
        for (const id of batch.keys()) await tx.query('INSERT INTO written VALUES ($1)', [id])
        if (batch.has('poor')) throw new Discard('no')
      },
    })
    await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 2 })
    expect(await written()).toEqual(['a', 'b'])
    await lockstep.enqueue(queue, { id: 'poor' })
    await expect(drain(lockstep, queue)).rejects.toThrow(Discard)
    expect(await written()).toEqual(['a', 'b'])
    expect((await lockstep.findDead(queue)).items).toHaveLength(1)
  })

  test('of a batch whose transaction is refused, each id is tried alone', async () => {
    await pool.query('CREATE TABLE one (id text UNIQUE DEFERRABLE INITIALLY DEFERRED)')
    const queue = defineQueue(name(), {
      transactional: true,
      shards: 1,
      batchSize: 3,
      retryIn: () => AN_HOUR,
      async perform(batch, { tx }) {
        for (const id of batch.keys()) await tx.query('INSERT INTO one VALUES ($1)', [id.slice(0, 1)])
      },
    })
    await lockstep.enqueue(queue, [{ id: 'a1' }, { id: 'a2' }, { id: 'b1' }])
    const { completed, failed } = await drain(lockstep, queue, { retries: true }).catch((error) => error)
    expect(completed).toBe(2)
    expect(new Set(failed.map(({ id }: { id: string }) => id)).size).toBe(1)
  })

  test('waits for a producer’s transaction that holds a job', async () => {
    const producer = await transaction()
    const payloads: unknown[] = []
    const queue = defineQueue<number>(name(), {
      async perform(batch) {
        payloads.push(...batch.get('a')!)
        if (payloads.length > 1) return
        await lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: producer })
        setTimeout(() => void producer.query('COMMIT; BEGIN'), 300)
      },
    })
    await lockstep.enqueue(queue, { id: 'a', payload: 1 })
    expect(await drain(lockstep, queue)).toMatchObject({ completed: 2 })
    expect(payloads).toEqual([1, 2])
  })

  test.each([
    ['no queue', [], {}, /needs at least one queue/],
    ['a name', 'orders', {}, /takes what defineQueue\(\) returns/],
    ['an unknown option', undefined, { retry: true }, /retry/],
    ['a Kysely-like thing as tx', undefined, { tx: { isTransaction: true } }, /`tx` is an object/],
    ['tx undefined', undefined, { tx: undefined }, /`tx` is undefined/],
  ])('refuses %s', async (_, given, options, told) => {
    const target = given === undefined ? noting().queue : given
    await expect(drain(lockstep, target as never, options as never)).rejects.toThrow(told)
  })
})

describe('drain in the test’s own transaction', () => {
  test('sees what that has enqueued, and leaves nothing behind when it’s rolled back', async () => {
    const { queue, runs } = noting()
    const tx = await transaction()
    await lockstep.enqueue(queue, { id: 'a', payload: 'v' }, { tx })
    await assertEnqueued(lockstep, queue, { id: 'a' }, { tx })
    expect(await drain(lockstep, queue, { tx })).toMatchObject({ completed: 1 })
    expect(runs).toEqual([['a', 'v']])
    expect(await enqueued(lockstep, queue, { tx })).toEqual([])
    const { queues } = await lockstep.stats({ tx })
    expect(queues.find((one) => one.queue === queue.name)).toMatchObject({ waiting: 0 })
  })

  test('transactional handlers write in it, and what a failed one wrote is rolled back alone', async () => {
    const queue = defineQueue(name(), {
      transactional: true,
      maxRetryCount: 1,
      retryIn: () => AN_HOUR,
      async perform(batch, { tx }) {
        for (const id of batch.keys()) await tx.query('INSERT INTO written VALUES ($1)', [id])
        if (batch.has('poor')) throw new Error('no')
      },
    })
    const tx = await transaction()
    await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'poor' }], { tx })
    const { completed, failed } = await drain(lockstep, queue, { tx, retries: true })
    expect(completed).toBe(1)
    expect(failed.map(({ retryIn }) => retryIn)).toEqual([AN_HOUR, null])
    expect((await tx.query('SELECT id FROM written')).rows).toEqual([{ id: 'a' }])
    expect((await lockstep.findDead(queue, {}, { tx })).items).toMatchObject([{ id: 'poor' }])
    expect(await written()).toEqual([])
  })

  test('transactions of a library that shows its client: Drizzle', async () => {
    const db = drizzle(pool)
    const queue = defineQueue(name(), {
      transactional: transactionsOf(db),
      async perform(batch: Batch, { tx }) {
        for (const id of batch.keys()) await tx.execute(`INSERT INTO written VALUES ('${id}')`)
      },
    })
    const seen = await db
      .transaction(async (tx) => {
        await lockstep.enqueue(queue, { id: 'a' }, { tx })
        expect(await drain(lockstep, queue, { tx })).toMatchObject({ completed: 1 })
        expect((await tx.execute('SELECT id FROM written')).rows).toEqual([{ id: 'a' }])
        throw new Error('rolled back')
      })
      .catch((error: Error) => error.message)
    expect(seen).toBe('rolled back')
    expect(await written()).toEqual([])
  })

  test('time passes in it alone', async () => {
    const { queue, runs } = noting()
    await lockstep.enqueue(queue, { id: 'a', performIn: Date.now() + 3_600_000 })
    const tx = await transaction()
    await advance(lockstep, queue, 3_600_000, { tx })
    expect(await drain(lockstep, queue, { tx })).toMatchObject({ completed: 1 })
    expect(runs).toHaveLength(1)
    await tx.query('ROLLBACK; BEGIN')
    expect(await enqueued(lockstep, queue)).toMatchObject([{ id: 'a' }])
  })
})
