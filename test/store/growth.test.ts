import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { growQueue, setShards } from '../../src/store/queue.ts'
import {
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  through,
  untilBlocked,
} from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

const grow = ({ queueId }: TestQueue, shards: number) => growQueue(env.database, queueId, shards)

async function shardsOf({ queueId }: TestQueue): Promise<number> {
  const [row] = await env.query<{ shards: number }>(
    'SELECT shards FROM lockstep.queues WHERE queue_id = $1',
    [queueId],
  )
  return row!.shards
}

describe('a queue', () => {
  test('grows once, and never shrinks', async () => {
    const testQueue = await env.queue({ shards: 3 })
    expect(await grow(testQueue, 8)).toBe(true)
    expect(await grow(testQueue, 8)).toBe(false)
    expect(await grow(testQueue, 2)).toBe(false)
    expect(await shardsOf(testQueue)).toBe(8)
  })

  test('has 16,384 shards at most', async () => {
    const testQueue = await env.queue({ shards: 3 })
    await expect(grow(testQueue, 16_385)).rejects.toMatchObject({ code: '23514' })
    expect(await shardsOf(testQueue)).toBe(3)
  })

  test('that was deleted meanwhile does not grow, nor does the one that has its name now', async () => {
    const testQueue = await env.queue({ shards: 3 })
    await env.query('DELETE FROM lockstep.queues WHERE queue_id = $1', [testQueue.queueId])
    await env.query('SELECT lockstep.create_queue($1, 3)', [testQueue.queue.name])
    expect(await grow(testQueue, 8)).toBe(false)
    expect(
      await env.query('SELECT shards FROM lockstep.queues WHERE name = $1', [testQueue.queue.name]),
    ).toEqual([{ shards: 3 }])
  })
})

describe('what somebody else is about to commit counts', () => {
  /** A queue of `before` shards, and a transaction that has changed that to `after` and is still open. */
  async function changing(before: number, after: number) {
    const testQueue = await env.queue({ shards: before })
    const other = await env.transaction()
    await setShards(through(other, env.database), testQueue.queueId, after)
    return { testQueue, other }
  }

  test.each([
    ['a worker that grows it further', 24, false],
    ['a worker that grows it as far', 8, false],
    ['a worker that grows it less', 5, true],
    ['a reshard to fewer', 2, true],
  ])('%s', async (_, meanwhile, grew) => {
    const { testQueue, other } = await changing(3, meanwhile)
    const session = await env.session()
    const pid = await pidOf(session)
    const growing = growQueue(through(session, env.database), testQueue.queueId, 8)
    await untilBlocked(env, pid)
    await other.query('COMMIT')
    expect(await growing).toBe(grew)
    expect(await shardsOf(testQueue)).toBe(Math.max(meanwhile, 8))
  })

  test('but a reshard from more to fewer comes after it: that is not waited for', async () => {
    const { testQueue, other } = await changing(12, 2)
    expect(await grow(testQueue, 8)).toBe(false)
    await other.query('COMMIT')
    expect(await shardsOf(testQueue)).toBe(2)
  })
})
