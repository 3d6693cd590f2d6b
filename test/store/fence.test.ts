import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import type { Leftover } from '../../src/store/settle.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue
let old: Claimer
let next: Claimer

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  old = await testQueue.claimer()
  next = await testQueue.claimer()
})

const ENDS: [string, (claimer: Claimer, round: Round) => Promise<Leftover[]>][] = [
  ['complete', (claimer, round) => claimer.complete(round)],
  ['fail', (claimer, round) => claimer.fail([round], 1_000, 'too late')],
  ['bury', (claimer, round) => claimer.fail([round], null, 'too late')],
  ['release', (claimer, round) => claimer.release(round)],
  ['count a crash', (claimer, round) => claimer.crash(round)],
]

/** Everything that the database knows about the queue. */
async function everything() {
  const rows = (table: string) =>
    env.query(`SELECT to_jsonb(t) AS row FROM lockstep.${table} t WHERE queue_id = $1 ORDER BY t`, [
      testQueue.queueId,
    ])
  return { jobs: await rows('jobs'), payloads: await rows('payloads'), morgue: await rows('morgue') }
}

async function changesNothing(end: () => Promise<Leftover[]>): Promise<void> {
  const before = await everything()
  const leftovers = await end()
  expect(outcomes(leftovers)).toEqual(['a lost'])
  expect(leftovers[0]).toMatchObject({ shard: null, lane: null, performIn: null })
  expect(await everything()).toEqual(before)
}

describe.each(ENDS)('P6 who lost its claim can’t %s', (_name, end) => {
  test('when another process rescued the job', async () => {
    await testQueue.push({ id: 'a', payload: 1 }, { id: 'a', payload: 2 })
    const lost = await old.take()
    await env.expire(old.processId)
    await next.take()
    await testQueue.push({ id: 'a', payload: 3 })
    await changesNothing(() => end(old, lost))
  })

  test('when it has claimed the job anew itself: an old fence proves nothing', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const first = await old.take()
    await old.release(first)
    await old.take()
    await changesNothing(() => end(old, first))
  })

  test('when the job waits', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const released = await old.take()
    await old.release(released)
    await changesNothing(() => end(old, released))
  })

  test('when the job was finished and pushed again', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const done = await old.take()
    await old.complete(done)
    await changesNothing(() => end(old, done))
    await testQueue.push({ id: 'a', payload: 2 })
    await changesNothing(() => end(old, done))
    await next.take()
    await changesNothing(() => end(old, done))
  })

  test('when it has claimed what was pushed after the job was finished: fences only grow', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    await old.release(await old.take())
    const done = await old.take()
    await old.complete(done)
    await testQueue.push({ id: 'a', payload: 2 })
    await old.take()
    await changesNothing(() => end(old, done))
  })

  test('with somebody else’s fence', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const round = await old.take()
    await changesNothing(() => end(next, round))
    expect(await old.complete(round)).toEqual([])
  })

  test('in another queue, where an id of the same name is in work', async () => {
    const other = await env.queue()
    await testQueue.push({ id: 'a', payload: 1 })
    await other.push({ id: 'a', payload: 1 })
    const theirs = await (await other.claimer()).take()
    await old.take()
    await changesNothing(() => end(old, theirs))
  })

  test('but its other claims of the same call end', async () => {
    await testQueue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 }, { id: 'c', payload: 1 })
    const { rounds } = await old.claim({ batchSize: 3 })
    const [a, b, c] = rounds
    await old.complete(b!)
    expect(outcomes(await old.complete(a!, b!, c!))).toEqual(['b lost'])
    expect(await testQueue.countJobs()).toBe(0)
  })
})

describe('P6 a completion in a transaction', () => {
  test('is fenced too, and with the rollback nothing has happened', async () => {
    await testQueue.push({ id: 'a', payload: 1 })
    const round = await old.take()
    const tx = await env.transaction()
    expect(await old.completeIn(tx, round)).toEqual([])
    await tx.query('ROLLBACK')
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: old.processId, fence: round.fence })

    await env.expire(old.processId)
    await next.take()
    await tx.query('BEGIN')
    expect(outcomes(await old.completeIn(tx, round))).toEqual(['a lost'])
    await tx.query('ROLLBACK')
    await env.endSessions()
  })

  test('P4 ends the round together with the handler’s writes', async () => {
    await env.query('CREATE TABLE IF NOT EXISTS written (n integer)')
    await testQueue.push({ id: 'a', payload: 1 })
    const round = await old.take()
    const tx = await env.transaction()
    await tx.query('INSERT INTO written VALUES (1)')
    expect(await old.completeIn(tx, round)).toEqual([])
    expect(await testQueue.countJobs()).toBe(1)
    await tx.query('COMMIT')
    expect(await testQueue.countJobs()).toBe(0)
    expect(await env.query('SELECT * FROM written')).toEqual([{ n: 1 }])
    await env.endSessions()
  })
})

describe('P3 a sequence of fences that stands behind its rows, as after a restore of the tables alone', () => {
  let apart: StoreEnvironment

  beforeAll(async () => {
    apart = await openStore()
  })
  afterAll(() => apart?.close())

  test('stops claims with the cure, and no payload is lost', async () => {
    const queue = await apart.queue()
    // The server tells the error before it has rolled back: another session might still find the row locked.
    const claimer = (await queue.claimer()).on(await apart.session())
    await queue.push({ id: 'a', payload: 1, score: 1 })
    await claimer.release(await claimer.take())
    await apart.query(`SELECT setval('lockstep.fences', 1, false)`)
    const error = await claimer.claim().catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'LOCKSTEP_SEQUENCE_BEHIND' })
    expect(await queue.set('a')).toEqual(['1[1]'])
    const [, cure] = /run: (SELECT .*)$/.exec(error.message)!
    await apart.query(cure!)
    expect((await claimer.take()).payloads).toEqual([1])
  })

  test('lets jobs be claimed that were pushed since', async () => {
    const queue = await apart.queue()
    const claimer = await queue.claimer()
    await apart.query(`SELECT setval('lockstep.fences', 1, false)`)
    await queue.push({ id: 'b', payload: 2 })
    expect((await claimer.take()).payloads).toEqual([2])
  })
})
