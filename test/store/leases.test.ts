import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import { expireLeased } from '../../src/store/expire-leased.ts'
import { claimLeased, endLeases, extendLeases, noteCut, settleLeased } from '../../src/store/leases.ts'
import {
  openStore,
  outcomes,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  through,
  untilBlocked,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

let env: StoreEnvironment
let gate: Gate
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateSettlements()
  await gate.gateLeases()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  await env.query('DELETE FROM lockstep.leases')
})
afterEach(() => env.endSessions())

/** Claims `count` jobs under a lease of `lease` ms. */
async function take(
  count: number,
  lease = 0,
  maxRetryCount = 25,
  { database = env.database, triesHeader = undefined as string | undefined } = {},
): Promise<Round[]> {
  const { queueId, queue } = testQueue
  const key = { queueId, shard: 0, lane: 0 }
  const { maxPayloads, maxBytes } = queue
  const wish = { key, cursor: { after: null, afterId: '' }, count, maxPayloads, maxBytes, maxRetryCount }
  const [claim] = await claimLeased(database, lease, [wish], triesHeader)
  expect(claim!.rounds).toHaveLength(count)
  return claim!.rounds
}

/** A round's claim, as its holder tells it. */
const keyOf = ({ id, fence }: Round) => ({ queueId: testQueue.queueId, id, fence })

const ended = () => endLeases(env.database, 50)
const complete = (round: Round, on = env.database) => settleLeased(on, 'complete', [keyOf(round)], [])
const leases = () => env.query<{ ids: string[] }>('SELECT ids FROM lockstep.leases ORDER BY ids')

describe('what a claim with a lease takes', () => {
  test('may be handed over as often as it says, also if it was committed after the claim began', async () => {
    const rounds = await gate.during(
      (session) => take(1, 60_000, 0, { database: through(session, env.database), triesHeader: 'tries' }),
      async () => {
        await testQueue.push({ id: 'a', headers: { tries: 3 } })
      },
    )
    expect(rounds[0]!.id).toBe('a')
    expect(await env.query('SELECT max_retry_count FROM lockstep.leases')).toEqual([{ max_retry_count: 2 }])
  })

  test('is taken by no one else, neither by a worker nor with another lease', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1, 60_000)
    await take(0)
    const claimer = await testQueue.claimer()
    expect((await claimer.claim()).rounds).toEqual([])
    await env.expire(claimer.processId)
    await take(0)
    expect(await ended()).toMatchObject({ leases: 0, rounds: 0 })
    expect(outcomes(await complete(round!))).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await leases()).toEqual([])
  })

  test('waits again once its lease has ended, one failure later', async () => {
    await testQueue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 })
    const [a] = await take(2)
    await complete(a!)
    expect(await ended()).toMatchObject({ leases: 1, rounds: 1, next: null })
    expect(await testQueue.job('b')).toMatchObject({ claimed_by: null, retry_count: 0 })
    expect(await testQueue.findJob('a')).toBeUndefined()
    expect(await leases()).toEqual([])
  })

  test('goes to the morgue if that was its last try', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    await take(1, 0, 0)
    expect(await ended()).toMatchObject({ leases: 1, rounds: 1 })
    expect(await testQueue.dead('a')).toMatchObject([
      { payload: 1, error: 'the lease ended before the job was settled' },
    ])
  })

  test('stays as it is while a producer has its row, and ends after that; others end before', async () => {
    await testQueue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 })
    await take(2)
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 2 })
    expect(await ended()).toMatchObject({ leases: 1, rounds: 1 })
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: 0 })
    expect(await testQueue.job('b')).toMatchObject({ claimed_by: null })
    expect(await leases()).toEqual([{ ids: ['a'] }])
    await producer.query('COMMIT')
    await env.query('UPDATE lockstep.leases SET ends_at = clock_timestamp()')
    expect(await ended()).toMatchObject({ leases: 1, rounds: 1 })
    expect(await testQueue.set('a')).toHaveLength(2)
  })

  test('is told by its queue, its id and its fence', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1)
    const wrong = { ...keyOf(round!), fence: round!.fence + 1 }
    expect(outcomes(await settleLeased(env.database, 'complete', [wrong], []))).toEqual(['a lost'])
    expect(outcomes(await extendLeases(env.database, [wrong], 1_000))).toEqual(['a lost'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: 0 })
  })
})

describe('a lease that is extended while it is ended', () => {
  test('is lost if the end comes first: the extension waits for it', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1)
    const session = await env.session()
    const pid = await pidOf(session)
    let extending: ReturnType<typeof extendLeases> | undefined
    const ends = await gate.during(
      (gated) => endLeases(through(gated, env.database), 50),
      async () => {
        extending = extendLeases(through(session, env.database), [keyOf(round!)], 60_000)
        await untilBlocked(env, pid)
      },
    )
    expect(ends).toMatchObject({ rounds: 1 })
    expect(outcomes(await extending!)).toEqual(['a lost'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null, retry_count: 0 })
  })

  test('runs on if the extension comes first: the end leaves it to the next look', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1)
    const session = await env.transaction()
    expect(await extendLeases(through(session, env.database), [keyOf(round!)], 60_000)).toEqual([])
    expect(await ended()).toMatchObject({ leases: 1, rounds: 0 })
    await session.query('COMMIT')
    expect(await ended()).toMatchObject({ leases: 1, rounds: 0 })
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: 0 })
    const { next } = await ended()
    expect(next).toBeGreaterThan(50_000)
    expect(await complete(round!)).toEqual([])
  })
})

describe('a round that is completed while its lease is ended', () => {
  test('is done if the completion comes first', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1)
    const ends = await gate.during(
      (gated) => endLeases(through(gated, env.database), 50),
      async () => void (await complete(round!)),
    )
    expect(ends).toMatchObject({ leases: 1, rounds: 0 })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('P6: waits again if the end comes first', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1)
    const completed = await gate.during(
      (gated) => complete(round!, through(gated, env.database)),
      async () => void (await ended()),
    )
    expect(outcomes(completed)).toEqual(['a lost'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null, retry_count: 0 })
  })

  test('P5: a push meanwhile follows in its own round', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    await take(1)
    await gate.during(
      (gated) => endLeases(through(gated, env.database), 50),
      async () =>
        void (await testQueue.push({ id: 'a', payload: 1, score: 5 }, { id: 'a', payload: 2, score: 6 })),
    )
    // It was in work until the end: R3, R4.
    expect((await testQueue.set('a')).map((one) => one.split('[')[0])).toEqual(['1', '2'])
  })
})

describe('a round whose payloads may not be handed over again', () => {
  const expire = ({ id, fence }: Round) => expireLeased(env.database, testQueue.queue.name, id, fence)

  test.each([
    ['waits', 25],
    ['dies', 0],
  ])('has expired where it otherwise %s once its lease has ended', async (_, maxRetryCount) => {
    await testQueue.push({ id: 'a', payload: 1 })
    await testQueue.push({ id: 'a', payload: 2 })
    const [round] = await take(1, 0, maxRetryCount)
    expect(await expire(round!)).toBe(true)
    expect(await ended()).toMatchObject({ rounds: 1 })
    expect(await testQueue.dead('a')).toEqual([])
    const again = await (await testQueue.claimer()).take()
    expect(again).toMatchObject({ payloads: [], expired: 2 })
    expect(await expire(round!)).toBe(false)
  })

  test('P5: spares what was pushed meanwhile, and what it has left to the next round', async () => {
    testQueue = await env.queue({ maxPayloads: 2 })
    for (const payload of [1, 2, 3]) await testQueue.push({ id: 'a', payload, score: payload })
    const [round] = await take(1)
    expect(round!.payloads).toEqual([1, 2])
    await noteCut(env.database, testQueue.queueId, round!)
    await testQueue.push({ id: 'a', payload: 1, score: 4 })
    await expire(round!)
    await ended()
    expect((await (await testQueue.claimer()).take()).payloads).toEqual([3, 1])
  })

  test('is its holder’s, who completes it', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1, 60_000)
    await expire(round!)
    expect(await complete(round!)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await expire(round!)).toBe(false)
  })

  test('waits five seconds for a producer that has its row', { tags: 'slow' }, async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const [round] = await take(1, 60_000)
    await testQueue.pushIn(await env.transaction(), { id: 'a', payload: 2 })
    await expect(expire(round!)).rejects.toMatchObject({ code: 'LOCKSTEP_LOCKED' })
  })
})

test('two calls that end leases at once end each of them once', async () => {
  const ids = Array.from({ length: 40 }, (_, n) => `${n}`)
  for (const id of ids) {
    await testQueue.push({ id, payload: 1 })
    await take(1)
  }
  const both = await Promise.all([ended(), ended()])
  expect(both.reduce((sum, { rounds }) => sum + rounds, 0)).toBe(ids.length)
  for (const id of ids) expect(await testQueue.job(id)).toMatchObject({ claimed_by: null, retry_count: 0 })
})
