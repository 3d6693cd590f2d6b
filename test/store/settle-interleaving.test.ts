import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  pidOf,
  type StoreEnvironment,
  shown,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

const FUTURE = 4_102_444_800_000

let env: StoreEnvironment
let gate: Gate
let testQueue: TestQueue
let claimer: Claimer

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateSettlements()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue({ batchSize: 10 })
  claimer = await testQueue.claimer()
})
afterEach(() => env.endSessions())

describe('P7 an end that meets an uncommitted push does not wait', () => {
  test('a completion is held, and later finds the next round', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await claimer.claim()
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'v', score: 2 })

    expect(outcomes(await claimer.complete(...rounds))).toEqual(['a held'])
    expect(await testQueue.findJob('b')).toBeUndefined()
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: claimer.processId, fence: rounds[0]!.fence })
    expect(outcomes(await claimer.complete(rounds[0]!))).toEqual(['a held'])

    await producer.query('COMMIT')
    expect(outcomes(await claimer.complete(rounds[0]!))).toEqual(['a again'])
    expect(shown([await claimer.take()])).toEqual(['a: v[2]'])
  })

  test('P4 nothing is left of it when the push is rolled back', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const round = await claimer.take()
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'w', performIn: FUTURE })
    expect(outcomes(await claimer.complete(round))).toEqual(['a held'])
    await producer.query('ROLLBACK')
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('a failure, a death, a release and a crash are held, and then unite with it', async () => {
    const ids = ['crashed', 'dead', 'failed', 'released']
    await testQueue.push(...ids.map((id) => ({ id, payload: 'v', score: 1 })))
    const [crashed, dead, failed, released] = (await claimer.claim()).rounds
    const ends = async () => [
      ...outcomes(await claimer.fail([failed!], 0, 'boom')),
      ...outcomes(await claimer.fail([dead!], null)),
      ...outcomes(await claimer.release(released!)),
      ...outcomes(await claimer.crash(crashed!)),
    ]
    const producer = await env.transaction()
    await testQueue.pushIn(producer, ...ids.map((id) => ({ id, payload: 'v', score: 2 })))
    expect(await ends()).toEqual(['failed held', 'dead held', 'released held', 'crashed held'])
    await producer.query('COMMIT')
    expect(await ends()).toEqual(['failed again', 'dead again', 'released again', 'crashed again'])

    expect(await testQueue.set('failed')).toEqual(['v[1]'])
    expect(await testQueue.set('dead')).toEqual(['v[2]'])
    expect(await testQueue.set('released')).toEqual(['v[1]'])
    expect(await testQueue.set('crashed')).toEqual(['v[1]'])
    expect(await testQueue.job('failed')).toMatchObject({ retry_count: 0, error: 'boom' })
    expect(await testQueue.job('crashed')).toMatchObject({ crashes: 1, claimed_by: null, retry_count: -1 })
  })

  test('R10 a crash is counted for what is free to be released, once', async () => {
    const ids = ['a', 'b', 'c']
    await testQueue.push(...ids.map((id) => ({ id, payload: 'v' })))
    const { rounds } = await claimer.claim()
    const [a, b, c] = rounds as [Round, Round, Round]
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'b', payload: 'w' })
    await claimer.complete(c)
    expect(outcomes(await claimer.crash(a, b, c))).toEqual(['a again', 'b held', 'c lost'])
    await producer.query('COMMIT')
    expect(await testQueue.job('a')).toMatchObject({ crashes: 1, claimed_by: null })
    expect(await testQueue.job('b')).toMatchObject({ crashes: 0, claimed_by: claimer.processId })
    expect(outcomes(await claimer.crash(a, b, c))).toEqual(['a lost', 'b again', 'c lost'])
    for (const id of ['a', 'b'])
      expect(await testQueue.job(id)).toMatchObject({ crashes: 1, claimed_by: null })
    expect((await claimer.claim()).rounds.map(({ id }) => id)).toEqual(['a'])
  })

  test('R10 a row that comes free while a crash is counted is left to the next try', async () => {
    await testQueue.push({ id: 'a', payload: 'v' }, { id: 'b', payload: 'v' })
    const { rounds } = await claimer.claim()
    // The count of crashes comes after the statement that locks the rows.
    await env.query(`CREATE FUNCTION lockstep.stop() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(4712); RETURN NULL; END $$`)
    await env.query(
      'CREATE TRIGGER stop BEFORE UPDATE OF crashes ON lockstep.jobs FOR EACH STATEMENT EXECUTE FUNCTION lockstep.stop()',
    )
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'b', payload: 'w' })
    const keeper = await env.session()
    await keeper.query('SELECT pg_advisory_lock(4712)')
    const counted = claimer.crash(...rounds)
    await vi.waitUntil(async () => {
      const waiting = await env.query('SELECT 1 FROM pg_locks WHERE objid = 4712 AND NOT granted')
      return waiting.length > 0
    })
    await producer.query('COMMIT')
    await keeper.query('SELECT pg_advisory_unlock(4712)')
    const leftovers = await counted
    await env.query('DROP TRIGGER stop ON lockstep.jobs; DROP FUNCTION lockstep.stop')
    expect(outcomes(leftovers)).toEqual(['a again', 'b held'])
    expect(await testQueue.job('b')).toMatchObject({ crashes: 0, claimed_by: claimer.processId })
  })

  test('an end in a transaction waits, and sees what was committed', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await claimer.claim()
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'w', score: 2, performIn: FUTURE })

    const tx = await env.transaction()
    const pid = await pidOf(tx)
    const completed = claimer.completeIn(tx, ...rounds)
    await untilBlocked(env, pid)
    await producer.query('COMMIT')
    expect(await completed).toMatchObject([{ id: 'a', outcome: 'again', performIn: FUTURE * 1000 }])
    await tx.query('COMMIT')
    expect(await testQueue.job('a')).toMatchObject({ performIn: FUTURE, claimed_by: null })
    expect(await testQueue.set('a')).toEqual(['w[2]'])
    expect(await testQueue.findJob('b')).toBeUndefined()
    expect(await testQueue.countPayloads()).toBe(1)
  })

  test('an end in a transaction that waited for a push in vain leaves nothing', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const round = await claimer.take()
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'w' })
    const tx = await env.transaction()
    const pid = await pidOf(tx)
    const completed = claimer.completeIn(tx, round)
    await untilBlocked(env, pid)
    await producer.query('ROLLBACK')
    expect(await completed).toEqual([])
    await tx.query('COMMIT')
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('with a lock_timeout an end in a transaction gives way to the producer', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const round = await claimer.take()
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'w' })
    const tx = await env.transaction(`BEGIN; SET LOCAL lock_timeout = 50`)
    await expect(claimer.completeIn(tx, round)).rejects.toMatchObject({ code: '55P03' })
    await tx.query('ROLLBACK')
    await producer.query('COMMIT')
    expect(outcomes(await claimer.complete(round))).toEqual(['a again'])
  })
})

describe('an end whose snapshot is older than its locks', () => {
  test('P5 sees a push that was committed in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await claimer.claim()
    const leftovers = await gate.during(
      (session) => claimer.on(session).complete(...rounds),
      async () => {
        await testQueue.push({ id: 'a', payload: 'v', score: 2, performIn: FUTURE })
        await testQueue.push({ id: 'b', payload: 'w', score: 2, performIn: FUTURE })
      },
    )
    expect(outcomes(leftovers)).toEqual(['a again', 'b again'])
    expect(await testQueue.set('a')).toEqual(['v[2]'])
    expect(await testQueue.set('b')).toEqual(['w[2]'])
    expect(await testQueue.job('a')).toMatchObject({ performIn: FUTURE, claimed_by: null })
  })

  test('P6 changes nothing when the claim was lost in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const round = await claimer.take()
    const heir = await testQueue.claimer()
    let rescued = round
    const leftovers = await gate.during(
      (session) => claimer.on(session).complete(round),
      async () => {
        await env.expire(claimer.processId)
        rescued = await heir.take()
      },
    )
    expect(outcomes(leftovers)).toEqual(['a lost'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: heir.processId, fence: rescued.fence })
    expect(await heir.complete(rescued)).toEqual([])
  })

  test('P6 a failure of a lost claim delays nothing', async () => {
    await testQueue.push({ id: 'a', payload: 'v' })
    const round = await claimer.take()
    const heir = await testQueue.claimer()
    const leftovers = await gate.during(
      (session) => claimer.on(session).fail([round], 1_000),
      async () => {
        await env.expire(claimer.processId)
        await heir.release(await heir.take())
      },
    )
    expect(outcomes(leftovers)).toEqual(['a lost'])
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 1 })
    await heir.take()
  })

  test('R7 P5 a death spares what was pushed in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 5 })
    const round = await claimer.take()
    const leftovers = await gate.during(
      (session) => claimer.on(session).fail([round], null),
      () => testQueue.push({ id: 'a', payload: 'v', score: 1 }).then(() => {}),
    )
    expect(outcomes(leftovers)).toEqual(['a again'])
    expect(await testQueue.set('a')).toEqual(['v[1]'])
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v', score: 5 }])
  })
})

describe('a push that meets an end', () => {
  test.each(['COMMIT', 'ROLLBACK'])('P3 waits for it and is handed over in any case: %s', async (end) => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const round = await claimer.take()
    const tx = await env.transaction()
    expect(await claimer.completeIn(tx, round)).toEqual([])

    const producer = await env.session()
    const pid = await pidOf(producer)
    const pushed = testQueue.pushOn(producer, { id: 'a', payload: 'v', score: 2 })
    await untilBlocked(env, pid)
    await tx.query(end)
    await pushed

    if (end === 'ROLLBACK') expect(outcomes(await claimer.complete(round))).toEqual(['a again'])
    expect(shown([await claimer.take()])).toEqual(['a: v[2]'])
    expect(await testQueue.countPayloads()).toBe(1)
  })

  test('R4 merges into the job that its failure left', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const round = await claimer.take()
    const open = await env.transaction()
    await claimer.on(open).fail([round], 1_000)
    const producer = await env.session()
    const pid = await pidOf(producer)
    const pushed = testQueue.pushOn(producer, { id: 'a', payload: 'w', score: 2 })
    await untilBlocked(env, pid)
    await open.query('COMMIT')
    await pushed
    expect(await testQueue.set('a')).toEqual(['v[1]', 'w[2]'])
    expect(await testQueue.job('a')).toMatchObject({ retry_count: 0, nextPerformIn: null })
  })
})
