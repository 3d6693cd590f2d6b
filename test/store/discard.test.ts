import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openStore, outcomes, type StoreEnvironment } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

test('all payloads of a discarded round die, and the id is gone', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'w', score: 2 }, { id: 'a', payload: 'v', score: 1 }, { id: 'b' })
  expect(await claimer.discard(await claimer.take())).toEqual([])
  expect(await testQueue.dead('a')).toEqual([
    { payload: 'v', score: 1, error: 'discarded' },
    { payload: 'w', score: 2, error: 'discarded' },
  ])
  expect(await testQueue.findJob('a')).toBeUndefined()
  expect(await testQueue.countPayloads()).toBe(1)
})

test('payloads of one score come back from the morgue in the order in which the handler got them', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  const payloads = ['z', 'y', 'x', 'w', 'v']
  await testQueue.push(...payloads.map((payload) => ({ id: 'a', payload, score: 1 })))
  await claimer.discard(await claimer.take())
  await env.lockstep.requeue(testQueue.queue, {})
  expect((await claimer.take()).payloads).toEqual(payloads)
})

test('what was pushed meanwhile waits until its own time with clean numbers, and P5: an equal payload lives', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: PAST })
  await claimer.fail([await claimer.take()])
  const round = await claimer.take()
  await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: FUTURE })
  expect(await claimer.discard(round)).toMatchObject([
    { id: 'a', outcome: 'again', performIn: FUTURE * 1000 },
  ])
  expect(await testQueue.job('a')).toMatchObject({
    performIn: FUTURE,
    retry_count: -1,
    error: null,
    claimed_by: null,
  })
  expect(await testQueue.set('a')).toEqual(['v[1]'])
  expect(await testQueue.dead('a')).toHaveLength(1)
})

test('of a round that took a part, that part dies, with all equal payloads', async () => {
  const testQueue = await env.queue({ maxPayloads: 2 })
  const claimer = await testQueue.claimer()
  await testQueue.push(
    ...['d', 'c', 'b', 'a'].map((payload) => ({ id: 'x', payload, score: payload.charCodeAt(0) })),
  )
  const late = await claimer.take()
  expect(late.payloads).toEqual(['a', 'b'])
  // Equal to one that was taken, and in the rows of another round.
  await testQueue.push({ id: 'x', payload: 'b', score: 200 })
  await claimer.release(late)
  expect(await claimer.discard(await claimer.take())).toMatchObject([{ outcome: 'again' }])
  expect(await testQueue.set('x')).toEqual(['c[99]', 'd[100]'])
  expect(await testQueue.dead('x')).toMatchObject([
    { payload: 'a', score: 97 },
    { payload: 'b', score: 98 },
  ])
})

test('a payload that is dead already keeps its lower score, and gets the new error', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v', score: 1 })
  await claimer.fail([await claimer.take()], null, 'the first death')
  await testQueue.push({ id: 'a', payload: 'v', score: 5 })
  await claimer.discard(await claimer.take())
  expect(await testQueue.dead('a')).toEqual([{ payload: 'v', score: 1, error: 'discarded' }])
})

test('P6: a lost claim buries nothing, whoever else is in its call', async () => {
  const testQueue = await env.queue({ shards: 1 })
  const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
  await testQueue.push({ id: 'a', payload: 'v' }, { id: 'b', payload: 'w' })
  const { rounds } = await one.claim({ batchSize: 2 })
  await one.release(rounds[0]!)
  const mine = await other.take()
  expect(mine.id).toBe('a')
  expect(outcomes(await one.discard(...rounds))).toEqual(['a lost'])
  expect(await testQueue.dead('a')).toEqual([])
  expect(await testQueue.dead('b')).toHaveLength(1)
  expect(await other.complete(mine)).toEqual([])
})

test('a row that a producer holds is left out; in a transaction it is waited for', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v' })
  const round = await claimer.take()
  const producer = await env.transaction()
  await testQueue.pushIn(producer, { id: 'a', payload: 'w' })
  expect(outcomes(await claimer.discard(round))).toEqual(['a held'])
  expect(await testQueue.dead('a')).toEqual([])
  const tx = await env.transaction()
  const discarded = claimer.discardIn(tx, round)
  await producer.query('COMMIT')
  expect(outcomes(await discarded)).toEqual(['a again'])
  await tx.query('COMMIT')
  expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v' }])
  expect(await testQueue.set('a')).toEqual([expect.stringMatching(/^w/)])
})

test('headers go along: those of the payload that was pushed first, of several rounds', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a', payload: 'v', score: 5, headers: { from: 'first' } })
  const round = await claimer.take()
  await testQueue.push({ id: 'a', payload: 'v', score: 1, headers: { from: 'second' } })
  await claimer.fail([round])
  await claimer.discard(await claimer.take())
  const { items } = await env.lockstep.findDead(testQueue.queue)
  expect(items).toMatchObject([{ payload: 'v', score: 1, headers: { from: 'first' } }])
})
