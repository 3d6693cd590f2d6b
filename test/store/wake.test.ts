import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob } from '../../src/job.ts'
import { lockShared, unlockShared } from '../../src/store/lock.ts'
import { type Message, parseMessage } from '../../src/store/wake.ts'
import { type Board, openStage, type Stage, until } from '../support/rounds.ts'

const SOON = 4_102_444_800_000

let stage: Stage
let board: Board

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue({ shards: 3 })
})
afterEach(() => stage.endSessions())

/** Collects what is said on the channel. A word of our own shows that all before it has arrived. */
async function listen(): Promise<() => Promise<string[]>> {
  const session = await stage.session()
  const heard: string[] = []
  session.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await session.query('LISTEN lockstep')
  return async () => {
    await stage.query(`NOTIFY lockstep, 'end'`)
    await until(() => expect(heard).toContain('end'))
    return heard.splice(0).slice(0, -1)
  }
}

const wait = (session: pg.Client, queueId = board.queueId) =>
  lockShared(session, 'lockstep', 'queues', [queueId])
const leave = (session: pg.Client) => unlockShared(session, 'lockstep', 'queues', [board.queueId])

/** A waiter, and what it hears when these jobs are pushed. */
async function heardBy(...jobs: NewJob[]): Promise<string[]> {
  const heard = await listen()
  await wait(await stage.session())
  await board.push(...jobs)
  return heard()
}

describe('a push notifies', () => {
  test('only while a worker waits for the queue', async () => {
    const heard = await listen()
    const [one, two] = [await stage.session(), await stage.session()]
    await board.push({ id: 'a' })
    expect(await heard()).toEqual([])

    await Promise.all([wait(one), wait(two)])
    await board.push({ id: 'b' })
    expect(await heard()).toHaveLength(1)

    await leave(one)
    await board.push({ id: 'c' })
    expect(await heard()).toHaveLength(1)

    await leave(two)
    await board.push({ id: 'd' })
    expect(await heard()).toEqual([])
  })

  test('nobody who waits for another queue', async () => {
    const heard = await listen()
    await wait(await stage.session(), (await stage.queue()).queueId)
    await board.push({ id: 'a' })
    expect(await heard()).toEqual([])
  })

  test('of new jobs: one that waits or is in work is no news', async () => {
    await board.push({ id: 'waiting', performIn: SOON }, { id: 'working' })
    const player = await board.player()
    const { shard } = await board.job('working')
    expect((await player.claim({ shard })).rounds).toHaveLength(1)
    expect(
      await heardBy({ id: 'waiting', performIn: 1_000 }, { id: 'working', payload: 2, performIn: 1_000 }),
    ).toEqual([])
  })

  test('when its transaction commits, and not when that rolls back', async () => {
    const heard = await listen()
    await wait(await stage.session())
    const tx = await stage.transaction()
    await board.pushIn(tx, { id: 'a' })
    expect(await heard()).toEqual([])
    await tx.query('COMMIT; BEGIN')
    expect(await heard()).toHaveLength(1)
    await board.pushIn(tx, { id: 'b' })
    await tx.query('ROLLBACK')
    expect(await heard()).toEqual([])
  })

  test('not where the transaction has switched it off, and until its end alone', async () => {
    const heard = await listen()
    await wait(await stage.session())
    const tx = await stage.transaction()
    for (const off of ['off', 'FALSE', 'no', '0']) {
      await tx.query(`SET LOCAL lockstep.wake = '${off}'`)
      await board.pushIn(tx, { id: off }, { id: `${off} too` })
    }
    await tx.query('COMMIT; BEGIN')
    expect(await heard()).toEqual([])
    for (const on of ['on', 'true', '']) {
      await tx.query(`SET LOCAL lockstep.wake = '${on}'`)
      await board.pushIn(tx, { id: `told ${on}` })
    }
    await tx.query('COMMIT; BEGIN')
    await board.pushIn(tx, { id: 'after' })
    await tx.query('COMMIT')
    expect(await heard()).toHaveLength(4)
  })

  test('without keeping the flag: nobody who begins to wait is held up by an open push', async () => {
    const tx = await stage.transaction()
    await board.pushIn(tx, { id: 'a' })
    const worker = await stage.session()
    await worker.query(`SET lock_timeout = '2s'`)
    await wait(worker)
    await board.pushIn(tx, { id: 'b' })
    // Other databases of the server have locks of the same numbers.
    const locks = await stage.query(
      `SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND classid = 'lockstep.queues'::regclass AND objid = $1`,
      [board.queueId],
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
      const key = `${(await board.job(id)).shard}:${lane}`
      expected.set(key, Math.min(expected.get(key) ?? Number.POSITIVE_INFINITY, performIn * 1000))
    }
    expect(messages).toMatchObject([{ kind: 'heads', queueId: board.queueId }])
    const { heads } = messages[0] as Message & { kind: 'heads' }
    expect(new Map(heads.map(({ shard, lane, performIn }) => [`${shard}:${lane}`, performIn]))).toEqual(
      expected,
    )
    expect(heads).toHaveLength(expected.size)
  })

  test('is `queue shard:lane:micros`', async () => {
    const [message] = await heardBy({ id: 'a', lane: 7, performIn: SOON })
    const { shard } = await board.job('a')
    expect(message).toBe(`${board.queueId} ${shard}:7:${SOON * 1000}`)
  })

  test('is the queue alone where a message can’t hold all lanes', async () => {
    board = await stage.queue({ shards: 1_000 })
    const jobs = Array.from({ length: 1_000 }, (_, i) => ({ id: `${i}`, performIn: SOON }))
    expect(await heardBy(...jobs)).toEqual([`${board.queueId}`])
    expect(parseMessage(`${board.queueId}`)).toEqual({ kind: 'heads', queueId: board.queueId, heads: [] })
  })

  test('is said once for a push of many statements’ worth in a lane', async () => {
    const heard = await heardBy(...Array.from({ length: 900 }, (_, i) => ({ id: `${i}`, performIn: SOON })))
    expect(heard).toHaveLength(1)
    expect(heard[0]!.split(' ').slice(1).sort()).toEqual(
      [0, 1, 2].map((shard) => `${shard}:0:${SOON * 1000}`),
    )
  })
})
