import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Claim } from '../../src/store/claim.ts'
import {
  type Claimer,
  openStore,
  pidOf,
  type StoreEnvironment,
  shown,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

const PAST = 1_536_323_288_000

let env: StoreEnvironment
let gate: Gate
let testQueue: TestQueue
let slow: Claimer
let quick: Claimer

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateClaims()
})
afterAll(() => env?.close())

/** `slow` reaches the gate at a job that a live process has claimed, and which is due before `a`. */
beforeEach(async () => {
  testQueue = await env.queue({ batchSize: 10 })
  slow = await testQueue.claimer()
  quick = await testQueue.claimer()
  await testQueue.push({ id: 'gate', performIn: PAST })
  await (await testQueue.claimer()).take()
})
afterEach(() => env.endSessions())

/** The claim of `slow`, with `act` between its locking statement's snapshot and its first lock. */
function claimDuring(act: () => Promise<void>): Promise<Claim> {
  return gate.during((session) => slow.on(session).claim(), act)
}

describe('a claim whose snapshot is older than its locks', () => {
  test('P3 hands over a payload that was committed in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST + 1 })
    const { rounds } = await claimDuring(async () => {
      await testQueue.push({ id: 'a', payload: 'w', score: 2 })
    })
    expect(shown(rounds)).toEqual(['a: v[1] w[2]'])
    expect(await slow.complete(...rounds)).toEqual([])
    expect(await testQueue.countPayloads('a')).toBe(0)
  })

  test('P3 draws its fence after the lock: above that of every payload pushed in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST + 1 })
    let lastFence = 0
    const { rounds } = await claimDuring(async () => {
      const round = await quick.take()
      await testQueue.push({ id: 'a', payload: 'w', score: 2, performIn: PAST + 2 })
      await quick.complete(round)
      lastFence = round.fence
    })
    expect(shown(rounds)).toEqual(['a: w[2]'])
    expect(rounds[0]!.fence).toBeGreaterThan(lastFence)
    // The numbers of the current row, not of the one in the snapshot.
    expect(rounds[0]).toMatchObject({ performIn: (PAST + 2) * 1000, retryCount: -1, crashes: 0 })
    expect(await slow.complete(...rounds)).toEqual([])
    expect(await testQueue.countPayloads('a')).toBe(0)
  })

  test('takes the numbers of the newest version of the row', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST + 1 })
    const { rounds } = await claimDuring(async () => {
      await quick.fail([await quick.take()], 0, 'in between')
      await env.query(
        `UPDATE lockstep.jobs SET perform_in = perform_in - interval '1 hour' WHERE queue_id = $1 AND id = 'a'`,
        [testQueue.queueId],
      )
    })
    expect(rounds).toMatchObject([{ id: 'a', retryCount: 0, error: 'in between', rescued: false }])
  })

  test('P1 leaves a job that somebody else has taken in between', async () => {
    await testQueue.push({ id: 'a', performIn: PAST + 1 }, { id: 'b', performIn: PAST + 2 })
    const { rounds } = await claimDuring(async () => {
      expect((await quick.take()).id).toBe('a')
    })
    expect(rounds.map(({ id }) => id)).toEqual(['b'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: quick.processId })
  })

  test('leaves a job that was finished, and one that was put off in between', async () => {
    await testQueue.push({ id: 'a', performIn: PAST + 1 }, { id: 'b', performIn: PAST + 2 })
    const { rounds } = await claimDuring(async () => {
      const [a, b] = (await quick.claim()).rounds
      await quick.complete(a!)
      await quick.fail([b!], 1_000)
    })
    expect(rounds).toEqual([])
    expect(await testQueue.job('b')).toMatchObject({ claimed_by: null, retry_count: 0 })
  })

  test('P1 leaves a job of a dead process that somebody else has rescued in between', async () => {
    const dying = await testQueue.claimer()
    await testQueue.push({ id: 'a', performIn: PAST + 1 })
    await dying.take()
    await env.expire(dying.processId)
    const { rounds } = await claimDuring(async () => {
      expect(await quick.take()).toMatchObject({ id: 'a', crashes: 1 })
    })
    expect(rounds).toEqual([])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: quick.processId, crashes: 1 })
  })

  test('takes, as an ordinary one, a job that was rescued and released in between', async () => {
    const dying = await testQueue.claimer()
    await testQueue.push({ id: 'a', performIn: PAST + 1 })
    await dying.take()
    await env.expire(dying.processId)
    const { rounds } = await claimDuring(async () => {
      await quick.release(await quick.take())
    })
    expect(rounds).toMatchObject([{ id: 'a', rescued: false, crashes: 1 }])
  })
})

describe('two claims at the same time', () => {
  test('P1 P7 never take the same job, nor wait for each other', async () => {
    await testQueue.push(...['a', 'b', 'c', 'd'].map((id) => ({ id, performIn: PAST + 1 })))
    const open = await env.transaction()
    const first = await quick.on(open).claim({ batchSize: 2 })
    expect(first.rounds.map(({ id }) => id)).toEqual(['a', 'b'])
    expect((await slow.claim()).rounds.map(({ id }) => id)).toEqual(['c', 'd'])
    await open.query('COMMIT')
  })

  test('P1 a rescue waits for nobody and is not done twice', async () => {
    const dying = await testQueue.claimer()
    await testQueue.push({ id: 'a', performIn: PAST + 1 }, { id: 'b', performIn: PAST + 1 })
    await dying.claim()
    await env.expire(dying.processId)
    const open = await env.transaction()
    expect((await quick.on(open).claim()).rounds).toMatchObject([{ id: 'a', rescued: true }])
    expect((await slow.claim()).rounds).toEqual([])
    await open.query('COMMIT')
    expect((await slow.claim()).rounds).toMatchObject([{ id: 'b', rescued: true, crashes: 1 }])
  })
})

describe('a push that meets a claim', () => {
  test('P5 waits for it, and is of the next round', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST + 1 })
    const open = await env.transaction()
    const [round] = (await quick.on(open).claim()).rounds
    const producer = await env.session()
    const pid = await pidOf(producer)
    const pushed = testQueue.pushOn(producer, { id: 'a', payload: 'v', score: 2 })
    await untilBlocked(env, pid)
    await open.query('COMMIT')
    await pushed

    expect(shown([round!])).toEqual(['a: v[1]'])
    await quick.complete(round!)
    expect(shown([await quick.take()])).toEqual(['a: v[2]'])
  })

  test('P3 into a waiting job is in no later round when the claim was rolled back', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST + 1 })
    const open = await env.transaction()
    await quick.on(open).claim()
    const producer = await env.session()
    const pid = await pidOf(producer)
    const pushed = testQueue.pushOn(producer, { id: 'a', payload: 'w', score: 2 })
    await untilBlocked(env, pid)
    await open.query('ROLLBACK')
    await pushed

    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null, nextPerformIn: null })
    expect(shown([await slow.take()])).toEqual(['a: v[1] w[2]'])
  })
})

describe('fences', () => {
  test('P6 of one id only grow, whoever claims, and are never given twice', async () => {
    await testQueue.push({ id: 'a', performIn: PAST + 1 }, { id: 'b', performIn: PAST + 1 })
    const fences: Record<string, number[]> = { a: [], b: [] }
    for (let n = 0; n < 20; n += 1) {
      const claimer = n % 2 ? quick : slow
      const { rounds } = await claimer.claim()
      expect(rounds).toHaveLength(2)
      for (const { id, fence } of rounds) fences[id]!.push(fence)
      await claimer.release(...rounds)
    }
    for (const given of Object.values(fences)) {
      expect(given).toEqual(given.toSorted((x, y) => x - y))
      expect(new Set(given).size).toBe(20)
    }
  })
})
