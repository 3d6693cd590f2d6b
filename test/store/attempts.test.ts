import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { FailedAttempt } from '../../src/index.ts'
import { exchange } from '../../src/store/exchange.ts'
import { fail } from '../../src/store/settle.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000
const CRASH = { kind: 'crash', error: null }

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

async function start(): Promise<[TestQueue, Claimer]> {
  const testQueue = await env.queue()
  await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST })
  return [testQueue, await testQueue.claimer()]
}

async function attemptsOf({ queue }: TestQueue, state?: 'waiting' | 'working'): Promise<FailedAttempt[]> {
  const { items } = await env.lockstep.find(queue, { ids: ['a'], state }, { attempts: true })
  expect(items).toHaveLength(1)
  return [...items[0]!.attempts!]
}

async function deadAttempts({ queue }: TestQueue): Promise<FailedAttempt[][]> {
  const { items } = await env.lockstep.findDead(queue, { by: 'score' }, { attempts: true })
  return items.map(({ attempts }) => [...attempts!])
}

/** What the table has. */
async function stored({ queueId }: TestQueue): Promise<{ attempts: unknown; text: string | null }> {
  const [row] = await env.query<{ attempts: unknown; text: string | null }>(
    'SELECT attempts, attempts::text AS text FROM lockstep.jobs WHERE queue_id = $1',
    [queueId],
  )
  return row!
}

async function failNext(claimer: Claimer, error: string, retryIn: number | null = 0): Promise<void> {
  await claimer.fail([await claimer.take()], retryIn, error)
}

const told = (attempts: readonly FailedAttempt[]) =>
  attempts.map(({ kind, retryCount, error }) => `${kind} ${retryCount} ${error}`)

describe('R6 a failure', () => {
  test('is told with its text, its retry count and the server’s time, the newest first', async () => {
    const [testQueue, claimer] = await start()
    const times = async () => (await env.query<{ now: Date }>('SELECT clock_timestamp() AS now'))[0]!.now
    const before = await times()
    for (const error of ['one', 'two', 'three']) await failNext(claimer, error)
    const attempts = await attemptsOf(testQueue)
    expect(told(attempts)).toEqual(['failure 2 three', 'failure 1 two', 'failure 0 one'])
    // A Date has no microseconds.
    const at = attempts.map((one) => one.at.getTime())
    expect(at).toEqual([...at].sort((a, b) => b - a))
    expect(at.at(-1)).toBeGreaterThanOrEqual(new Date(before).getTime() - 1)
    expect(at[0]).toBeLessThanOrEqual(new Date(await times()).getTime())
  })

  test('a job that never failed has nothing stored, and tells none', async () => {
    const [testQueue, claimer] = await start()
    expect(await attemptsOf(testQueue)).toEqual([])
    await claimer.release(await claimer.take())
    await claimer.fail([await claimer.take()], 0, null)
    expect(await stored(testQueue)).toEqual({ attempts: null, text: null })
  })

  test('ten are kept', async () => {
    const [testQueue, claimer] = await start()
    for (let n = 0; n < 13; n += 1) await failNext(claimer, `error ${n}`)
    expect(told(await attemptsOf(testQueue))).toEqual(
      Array.from({ length: 10 }, (_, n) => `failure ${12 - n} error ${12 - n}`),
    )
  })

  test('the last text is stored once, in full; earlier ones have 2,000 characters, with every cause', async () => {
    const [testQueue, claimer] = await start()
    const chain = ['é', 'b', 'c'].map((letter) => letter.repeat(2_400)).join('\ncaused by: ')
    await failNext(claimer, chain)
    expect((await stored(testQueue)).text!.length).toBeLessThan(120)
    expect((await attemptsOf(testQueue))[0]!.error).toBe(chain)
    await failNext(claimer, 'again')
    const [, former] = await attemptsOf(testQueue)
    expect(former!.error).toMatch(/^é{600,}\.\.\.\ncaused by: b{600,}\.\.\.\ncaused by: c{600,}\.\.\.$/)
    expect(former!.error!.length).toBeLessThanOrEqual(2_000)
    expect(former!.error!.length).toBeGreaterThan(1_900)
  })

  test.each([
    ['a text of 2,000 characters', 'x'.repeat(2_000), 2_000],
    ['one more', 'x'.repeat(2_001), 2_000],
    ['characters of four bytes', '🙂'.repeat(5_000), 2_000],
    ['more causes than there is room for', 'x\ncaused by: '.repeat(600), 2_000],
  ])('an earlier text is bounded: %s', async (_, error, most) => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, error)
    await failNext(claimer, 'again')
    const [, former] = await attemptsOf(testQueue)
    expect([...former!.error!].length).toBeLessThanOrEqual(most)
    if (error.length <= most) expect(former!.error).toBe(error)
  })

  test('R16 a timeout says so, and does not make one of what fails beside it', async () => {
    const testQueue = await env.queue()
    await testQueue.push(...['a', 'b'].map((id) => ({ id, payload: 'v', performIn: PAST })))
    const claimer = await testQueue.claimer()
    const { rounds } = await claimer.claim({ batchSize: 2 })
    const holder = { processId: claimer.processId, queueId: testQueue.queueId }
    const failures = rounds.map((round, at) => ({
      round,
      end: 'fail' as const,
      error: 'no',
      retryIn: 60,
      isTimeout: at === 0,
    }))
    await fail(env.database, holder, failures)
    const { items } = await env.lockstep.find(testQueue.queue, { by: 'id' }, { attempts: true })
    expect(items.map(({ attempts }) => attempts![0]!.kind)).toEqual(['timeout', 'failure'])
  })

  test('a snooze and a release leave them, and so does a push', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'one')
    const before = await attemptsOf(testQueue)
    await claimer.release(await claimer.take())
    await claimer.fail([await claimer.take()], 0, null)
    await testQueue.push({ id: 'a', payload: 'w' })
    expect(await attemptsOf(testQueue)).toEqual(before)
  })

  test('a success ends them, also if something was pushed meanwhile, which has none of its own before', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'one')
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'w', performIn: PAST })
    expect(told(await attemptsOf(testQueue, 'working'))).toEqual(['failure 0 one'])
    expect(await attemptsOf(testQueue, 'waiting')).toEqual([])
    await claimer.complete(round)
    expect(await attemptsOf(testQueue)).toEqual([])
    expect(await stored(testQueue)).toEqual({ attempts: null, text: null })
    await failNext(claimer, 'two')
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 0 two'])
  })

  test('a completion with a rest left by maxPayloads ends them too', async () => {
    const testQueue = await env.queue({ maxPayloads: 1 })
    await testQueue.push(...['v', 'w'].map((payload) => ({ id: 'a', payload })))
    const claimer = await testQueue.claimer()
    await failNext(claimer, 'one')
    await claimer.complete(await claimer.take())
    expect(await attemptsOf(testQueue)).toEqual([])
  })
})

describe('R10 a crash', () => {
  test('is noted when its job is claimed again, and takes no text', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'one')
    await claimer.take()
    await env.expire(claimer.processId)
    const other = await testQueue.claimer()
    const round = await other.take()
    expect(await attemptsOf(testQueue)).toMatchObject([CRASH, { kind: 'failure', error: 'one' }])
    await other.fail([round], 0, 'two')
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 1 two', 'crash 0 null', 'failure 0 one'])
  })

  test('is not noted for what is claimed in the same call', async () => {
    const [crashed, claimer] = await start()
    const [other, third] = await start()
    await claimer.take()
    await env.expire(claimer.processId)
    const wishes = [crashed, other].map(({ queueId }) => ({
      key: { queueId, shard: 0, lane: 0 },
      cursor: { after: null, afterId: '' },
      count: 1,
      maxPayloads: undefined,
      maxBytes: 1_000,
    }))
    const { claims } = await exchange(env.database, third.processId, [], wishes)
    expect(claims.map(({ rounds }) => rounds.length)).toEqual([1, 1])
    expect(told(await attemptsOf(crashed))).toEqual(['crash -1 null'])
    expect(await stored(other)).toEqual({ attempts: null, text: null })
  })

  test('that the worker reports itself', async () => {
    const [testQueue, claimer] = await start()
    await claimer.crash(await claimer.take())
    await claimer.crash(await claimer.take())
    expect(told(await attemptsOf(testQueue))).toEqual(['crash -1 null', 'crash -1 null'])
  })

  test('that a perform now or a requeue finds', async () => {
    for (const act of ['performNow', 'requeue'] as const) {
      const [testQueue, claimer] = await start()
      await testQueue.push({ id: 'a', payload: 'w', score: 2, performIn: PAST })
      await failNext(claimer, 'deadly', null)
      await claimer.take()
      await env.expire(claimer.processId)
      await env.lockstep[act](testQueue.queue, {})
      expect(told(await attemptsOf(testQueue))).toEqual(['crash -1 null', 'failure 0 deadly'])
    }
  })
})

describe('R7 a death', () => {
  test('takes a copy along, and the job keeps its own until the next success', async () => {
    const [testQueue, claimer] = await start()
    await testQueue.push({ id: 'a', payload: 'w', score: 2 })
    await failNext(claimer, 'one')
    await failNext(claimer, 'two', null)
    expect((await deadAttempts(testQueue)).map(told)).toEqual([['failure 1 two', 'failure 0 one']])
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 1 two', 'failure 0 one'])
    await failNext(claimer, 'three', null)
    expect((await deadAttempts(testQueue)).map(told)).toEqual([
      ['failure 1 two', 'failure 0 one'],
      ['failure 0 three', 'failure 1 two', 'failure 0 one'],
    ])
    expect(await testQueue.findJob('a')).toBeUndefined()
  })

  test('of an equal payload replaces those of the one before', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'first', null)
    await testQueue.push({ id: 'a', payload: 'v', performIn: PAST })
    await failNext(claimer, 'second', null)
    expect((await deadAttempts(testQueue)).map(told)).toEqual([['failure 0 second']])
  })

  test('by a discard, with what it says; what follows has none', async () => {
    const [testQueue, claimer] = await start()
    await testQueue.push({ id: 'a', payload: 'w', score: 2 })
    await failNext(claimer, 'one')
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'x', performIn: FUTURE })
    await claimer.discard(round)
    expect((await deadAttempts(testQueue)).map(told)).toEqual([
      ['failure 1 discarded', 'failure 0 one'],
      ['failure 1 discarded', 'failure 0 one'],
    ])
    expect(await attemptsOf(testQueue)).toEqual([])
  })

  test('by a kill: those of the job, and none for what waits behind a round', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'one')
    await env.lockstep.kill(testQueue.queue, {})
    expect((await deadAttempts(testQueue)).map(told)).toEqual([['failure 0 one']])
    const [other, holder] = await start()
    await failNext(holder, 'one')
    await holder.take()
    await other.push({ id: 'a', payload: 'w' })
    await env.lockstep.kill(other.queue, {})
    expect(await deadAttempts(other)).toEqual([[]])
    expect(told(await attemptsOf(other))).toEqual(['failure 0 one'])
  })
})

describe('R5 a requeue', () => {
  test('brings them back, with those of the latest death; they go on from there', async () => {
    const [testQueue, claimer] = await start()
    await testQueue.push({ id: 'a', payload: 'w', score: 2 })
    await failNext(claimer, 'one', null)
    await failNext(claimer, 'two', null)
    await env.lockstep.requeue(testQueue.queue, {})
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 0 two', 'failure 0 one'])
    await failNext(claimer, 'three')
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 0 three', 'failure 0 two', 'failure 0 one'])
  })

  test('leaves a job without any if it has an error: that is of something else', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'dead', null)
    await testQueue.push({ id: 'a', payload: 'w', score: 2 })
    await env.lockstep.kill(testQueue.queue, {})
    await env.lockstep.requeue(testQueue.queue, { score: { from: 2 } })
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await testQueue.job('a')).toMatchObject({ error: 'killed' })
    expect(await attemptsOf(testQueue)).toEqual([])
  })

  test('leaves a job that has failed since its own', async () => {
    const [testQueue, claimer] = await start()
    await failNext(claimer, 'dead', null)
    await testQueue.push({ id: 'a', payload: 'w', performIn: PAST })
    await failNext(claimer, 'own')
    await env.lockstep.requeue(testQueue.queue, {})
    expect(told(await attemptsOf(testQueue))).toEqual(['failure 0 own'])
  })
})

test('they are told only if asked for, and the views tell them, too', async () => {
  const [testQueue, claimer] = await start()
  await testQueue.push({ id: 'a', payload: 'w', score: 2, performIn: PAST })
  await failNext(claimer, 'one', null)
  for (const found of [
    await env.lockstep.find(testQueue.queue),
    await env.lockstep.find(testQueue.queue, {}, { attempts: false }),
    await env.lockstep.findDead(testQueue.queue),
  ])
    expect(found.items[0]).not.toHaveProperty('attempts')
  const expected = [{ at: expect.any(String), kind: 'failure', retry_count: 0, error: 'one' }]
  const of = (view: string) =>
    env.query(`SELECT attempts FROM lockstep.${view} WHERE queue = $1`, [testQueue.queue.name])
  expect(await of('dead')).toEqual([{ attempts: expected }])
  expect(await of('waiting')).toEqual([{ attempts: expected }])
  await claimer.take()
  expect(await of('working')).toEqual([{ attempts: expected }])
  await expect(env.lockstep.find(testQueue.queue, {}, { attempts: 'yes' } as never)).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_OPTION',
  })
})

test('functions that processes of the release before call note them, without knowing of timeouts', async () => {
  const [testQueue, claimer] = await start()
  const call = async (retryIn: number | null) => {
    const { fence } = await claimer.take()
    const values = [[testQueue.queueId], claimer.processId, ['a'], [fence], ['old'], [retryIn], false]
    await env.database.call('fail', values)
  }
  await call(0)
  await call(0)
  expect(told(await attemptsOf(testQueue))).toEqual(['failure 1 old', 'failure 0 old'])
  await call(null)
  expect((await deadAttempts(testQueue)).map(told)).toEqual([
    ['failure 2 old', 'failure 1 old', 'failure 0 old'],
  ])
})

test('a call of `fail` of before that a migration overtakes finds the function that buries', async () => {
  const [testQueue, claimer] = await start()
  const { fence } = await claimer.take()
  await env.database.call('bury_lowest', [[testQueue.queueId], ['a'], [fence], ['old'], [1]])
  expect((await deadAttempts(testQueue)).map(told)).toEqual([['failure 0 old']])
  expect(await testQueue.findJob('a')).toBeUndefined()
})
