import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob } from '../../src/job.ts'
import { lockShared, unlockShared } from '../../src/store/lock.ts'
import { type Message, parseMessage } from '../../src/store/wake.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'

const SOON = 4_102_444_800_000

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue({ shards: 3 })
})
afterEach(() => env.endSessions())

/** Collects the messages on the channel. A message of our own shows that all earlier ones have arrived. */
async function listen(): Promise<() => Promise<string[]>> {
  const session = await env.session()
  const heard: string[] = []
  session.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await session.query('LISTEN lockstep')
  return async () => {
    await env.query(`NOTIFY lockstep, 'end'`)
    await until(() => expect(heard).toContain('end'))
    return heard.splice(0).slice(0, -1)
  }
}

const wait = (session: pg.Client, queueId = testQueue.queueId) =>
  lockShared(session, 'lockstep', 'queues', [queueId])
const leave = (session: pg.Client) => unlockShared(session, 'lockstep', 'queues', [testQueue.queueId])

/** What a waiting worker hears when these jobs are pushed. */
async function heardBy(...jobs: NewJob[]): Promise<string[]> {
  const heard = await listen()
  await wait(await env.session())
  await testQueue.push(...jobs)
  return heard()
}

describe('a push notifies', () => {
  test('only while a worker waits for the queue', async () => {
    const heard = await listen()
    const [one, two] = [await env.session(), await env.session()]
    await testQueue.push({ id: 'a' })
    expect(await heard()).toEqual([])

    await Promise.all([wait(one), wait(two)])
    await testQueue.push({ id: 'b' })
    expect(await heard()).toHaveLength(1)

    await leave(one)
    await testQueue.push({ id: 'c' })
    expect(await heard()).toHaveLength(1)

    await leave(two)
    await testQueue.push({ id: 'd' })
    expect(await heard()).toEqual([])
  })

  test('nobody who waits for another queue', async () => {
    const heard = await listen()
    await wait(await env.session(), (await env.queue()).queueId)
    await testQueue.push({ id: 'a' })
    expect(await heard()).toEqual([])
  })

  test('of new jobs: one that waits or is in work is no news', async () => {
    await testQueue.push({ id: 'waiting', performIn: SOON }, { id: 'working' })
    const claimer = await testQueue.claimer()
    const { shard } = await testQueue.job('working')
    expect((await claimer.claim({ shard })).rounds).toHaveLength(1)
    expect(
      await heardBy({ id: 'waiting', performIn: 1_000 }, { id: 'working', payload: 2, performIn: 1_000 }),
    ).toEqual([])
  })

  test('when its transaction commits, and not when that rolls back', async () => {
    const heard = await listen()
    await wait(await env.session())
    const tx = await env.transaction()
    await testQueue.pushIn(tx, { id: 'a' })
    expect(await heard()).toEqual([])
    await tx.query('COMMIT; BEGIN')
    expect(await heard()).toHaveLength(1)
    await testQueue.pushIn(tx, { id: 'b' })
    await tx.query('ROLLBACK')
    expect(await heard()).toEqual([])
  })

  test('not where the transaction has switched it off, and until its end alone', async () => {
    const heard = await listen()
    await wait(await env.session())
    const tx = await env.transaction()
    for (const off of ['off', 'FALSE', 'no', '0']) {
      await tx.query(`SET LOCAL lockstep.wake = '${off}'`)
      await testQueue.pushIn(tx, { id: off }, { id: `${off} too` })
    }
    await tx.query('COMMIT; BEGIN')
    expect(await heard()).toEqual([])
    for (const on of ['on', 'true', '']) {
      await tx.query(`SET LOCAL lockstep.wake = '${on}'`)
      await testQueue.pushIn(tx, { id: `told ${on}` })
    }
    await tx.query('COMMIT; BEGIN')
    await testQueue.pushIn(tx, { id: 'after' })
    await tx.query('COMMIT')
    expect(await heard()).toHaveLength(4)
  })

  test('without keeping the flag: nobody who begins to wait is held up by an open push', async () => {
    const tx = await env.transaction()
    await testQueue.pushIn(tx, { id: 'a' })
    const worker = await env.session()
    await worker.query(`SET lock_timeout = '2s'`)
    await wait(worker)
    await testQueue.pushIn(tx, { id: 'b' })
    // Other databases of the server have locks with the same numbers.
    const locks = await env.query(
      `SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND classid = 'lockstep.queues'::regclass AND objid = $1
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [testQueue.queueId],
    )
    expect(locks).toEqual([{ mode: 'ShareLock' }])
  })
})

describe('what it says', () => {
  test('is the earliest time of each lane, to the microsecond', async () => {
    const jobs = Array.from({ length: 20 }, (_, i) => ({
      id: `${i}`,
      performIn: SOON + ((i * 7) % 20),
      lane: i % 2,
    }))
    const messages = (await heardBy(...jobs)).map(parseMessage)
    const expected = new Map<string, number>()
    for (const { id, lane, performIn } of jobs) {
      const key = `${(await testQueue.job(id)).shard}:${lane}`
      expected.set(key, Math.min(expected.get(key) ?? Number.POSITIVE_INFINITY, performIn * 1000))
    }
    expect(messages).toMatchObject([{ kind: 'heads', queueId: testQueue.queueId }])
    const { heads } = messages[0] as Message & { kind: 'heads' }
    expect(new Map(heads.map(({ shard, lane, performIn }) => [`${shard}:${lane}`, performIn]))).toEqual(
      expected,
    )
    expect(heads).toHaveLength(expected.size)
  })

  test('is `queue shard:lane:micros`', async () => {
    const [message] = await heardBy({ id: 'a', lane: 7, performIn: SOON })
    const { shard } = await testQueue.job('a')
    expect(message).toBe(`${testQueue.queueId} ${shard}:7:${SOON * 1000}`)
  })

  test('is the queue alone where a message can’t hold all lanes', async () => {
    testQueue = await env.queue({ shards: 1_000 })
    const jobs = Array.from({ length: 1_000 }, (_, i) => ({ id: `${i}`, performIn: SOON }))
    expect(await heardBy(...jobs)).toEqual([`${testQueue.queueId}`])
    expect(parseMessage(`${testQueue.queueId}`)).toEqual({
      kind: 'heads',
      queueId: testQueue.queueId,
      heads: [],
    })
  })

  test('is said once for a push of many statements’ worth in a lane', async () => {
    const heard = await heardBy(...Array.from({ length: 900 }, (_, i) => ({ id: `${i}`, performIn: SOON })))
    expect(heard).toHaveLength(1)
    expect(heard[0]!.split(' ').slice(1).sort()).toEqual(
      [0, 1, 2].map((shard) => `${shard}:0:${SOON * 1000}`),
    )
  })
})
