import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import {
  type Board,
  openStage,
  outcomes,
  type Player,
  pidOf,
  type Stage,
  shown,
  untilBlocked,
} from '../support/rounds.ts'
import { Gate } from './gate.ts'

const FUTURE = 4_102_444_800_000

let stage: Stage
let gate: Gate
let board: Board
let player: Player

beforeAll(async () => {
  stage = await openStage()
  gate = new Gate(stage)
  await gate.install()
  await gate.gateSettlements()
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue({ batchSize: 10 })
  player = await board.player()
})
afterEach(() => stage.endSessions())

describe('P7 an end that meets an uncommitted push does not wait', () => {
  test('a completion is held, and later finds the next round', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await player.claim()
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a', payload: 'v', score: 2 })

    expect(outcomes(await player.complete(...rounds))).toEqual(['a held'])
    expect(await board.findJob('b')).toBeUndefined()
    expect(await board.job('a')).toMatchObject({ claimed_by: player.processId, fence: rounds[0]!.fence })
    expect(outcomes(await player.complete(rounds[0]!))).toEqual(['a held'])

    await producer.query('COMMIT')
    expect(outcomes(await player.complete(rounds[0]!))).toEqual(['a again'])
    expect(shown([await player.take()])).toEqual(['a: v[2]'])
  })

  test('P4 nothing is left of it when the push is rolled back', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const round = await player.take()
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a', payload: 'w', performIn: FUTURE })
    expect(outcomes(await player.complete(round))).toEqual(['a held'])
    await producer.query('ROLLBACK')
    expect(await player.complete(round)).toEqual([])
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
  })

  test('a failure, a death, a release and a crash are held, and then unite with it', async () => {
    const ids = ['crashed', 'dead', 'failed', 'released']
    await board.push(...ids.map((id) => ({ id, payload: 'v', score: 1 })))
    const [crashed, dead, failed, released] = (await player.claim()).rounds
    const ends = async () => [
      ...outcomes(await player.fail([failed!], 0, 'boom')),
      ...outcomes(await player.fail([dead!], null)),
      ...outcomes(await player.release(released!)),
      ...outcomes(await player.crash(crashed!)),
    ]
    const producer = await stage.transaction()
    await board.pushIn(producer, ...ids.map((id) => ({ id, payload: 'v', score: 2 })))
    expect(await ends()).toEqual(['failed held', 'dead held', 'released held', 'crashed held'])
    await producer.query('COMMIT')
    expect(await ends()).toEqual(['failed again', 'dead again', 'released again', 'crashed again'])

    expect(await board.set('failed')).toEqual(['v[1]'])
    expect(await board.set('dead')).toEqual(['v[2]'])
    expect(await board.set('released')).toEqual(['v[1]'])
    expect(await board.set('crashed')).toEqual(['v[1]'])
    expect(await board.job('failed')).toMatchObject({ retry_count: 0, error: 'boom' })
    expect(await board.job('crashed')).toMatchObject({ crashes: 1, claimed_by: null, retry_count: -1 })
  })

  test('R10 a crash is counted for what is free to be given back, once', async () => {
    const ids = ['a', 'b', 'c']
    await board.push(...ids.map((id) => ({ id, payload: 'v' })))
    const { rounds } = await player.claim()
    const [a, b, c] = rounds as [Round, Round, Round]
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'b', payload: 'w' })
    await player.complete(c)
    expect(outcomes(await player.crash(a, b, c))).toEqual(['a again', 'b held', 'c lost'])
    await producer.query('COMMIT')
    expect(await board.job('a')).toMatchObject({ crashes: 1, claimed_by: null })
    expect(await board.job('b')).toMatchObject({ crashes: 0, claimed_by: player.processId })
    expect(outcomes(await player.crash(a, b, c))).toEqual(['a lost', 'b again', 'c lost'])
    for (const id of ['a', 'b']) expect(await board.job(id)).toMatchObject({ crashes: 1, claimed_by: null })
    expect((await player.claim()).rounds.map(({ id }) => id)).toEqual(['a'])
  })

  test('R10 a row that comes free while a crash is counted is left to the next try', async () => {
    await board.push({ id: 'a', payload: 'v' }, { id: 'b', payload: 'v' })
    const { rounds } = await player.claim()
    // The count comes after the statement that holds the rows.
    await stage.query(`CREATE FUNCTION lockstep.stop() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(4712); RETURN NULL; END $$`)
    await stage.query(
      'CREATE TRIGGER stop BEFORE UPDATE OF crashes ON lockstep.jobs FOR EACH STATEMENT EXECUTE FUNCTION lockstep.stop()',
    )
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'b', payload: 'w' })
    const keeper = await stage.session()
    await keeper.query('SELECT pg_advisory_lock(4712)')
    const counted = player.crash(...rounds)
    await vi.waitUntil(async () => {
      const waiting = await stage.query('SELECT 1 FROM pg_locks WHERE objid = 4712 AND NOT granted')
      return waiting.length > 0
    })
    await producer.query('COMMIT')
    await keeper.query('SELECT pg_advisory_unlock(4712)')
    const leftovers = await counted
    await stage.query('DROP TRIGGER stop ON lockstep.jobs; DROP FUNCTION lockstep.stop')
    expect(outcomes(leftovers)).toEqual(['a again', 'b held'])
    expect(await board.job('b')).toMatchObject({ crashes: 0, claimed_by: player.processId })
  })

  test('an end in a transaction waits, and sees what was committed', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await player.claim()
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a', payload: 'w', score: 2, performIn: FUTURE })

    const tx = await stage.transaction()
    const pid = await pidOf(tx)
    const completed = player.completeIn(tx, ...rounds)
    await untilBlocked(stage, pid)
    await producer.query('COMMIT')
    expect(await completed).toMatchObject([{ id: 'a', outcome: 'again', performIn: FUTURE * 1000 }])
    await tx.query('COMMIT')
    expect(await board.job('a')).toMatchObject({ performIn: FUTURE, claimed_by: null })
    expect(await board.set('a')).toEqual(['w[2]'])
    expect(await board.findJob('b')).toBeUndefined()
    expect(await board.countPayloads()).toBe(1)
  })

  test('an end in a transaction that waited for a push in vain leaves nothing', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const round = await player.take()
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a', payload: 'w' })
    const tx = await stage.transaction()
    const pid = await pidOf(tx)
    const completed = player.completeIn(tx, round)
    await untilBlocked(stage, pid)
    await producer.query('ROLLBACK')
    expect(await completed).toEqual([])
    await tx.query('COMMIT')
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
  })

  test('with a lock_timeout an end in a transaction gives way to the producer', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const round = await player.take()
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a', payload: 'w' })
    const tx = await stage.transaction(`BEGIN; SET LOCAL lock_timeout = 50`)
    await expect(player.completeIn(tx, round)).rejects.toMatchObject({ code: '55P03' })
    await tx.query('ROLLBACK')
    await producer.query('COMMIT')
    expect(outcomes(await player.complete(round))).toEqual(['a again'])
  })
})

describe('an end whose snapshot is older than its locks', () => {
  test('P5 sees a push that was committed in between', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    const { rounds } = await player.claim()
    const leftovers = await gate.during(
      (session) => player.on(session).complete(...rounds),
      async () => {
        await board.push({ id: 'a', payload: 'v', score: 2, performIn: FUTURE })
        await board.push({ id: 'b', payload: 'w', score: 2, performIn: FUTURE })
      },
    )
    expect(outcomes(leftovers)).toEqual(['a again', 'b again'])
    expect(await board.set('a')).toEqual(['v[2]'])
    expect(await board.set('b')).toEqual(['w[2]'])
    expect(await board.job('a')).toMatchObject({ performIn: FUTURE, claimed_by: null })
  })

  test('P6 changes nothing when the claim was lost in between', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const round = await player.take()
    const heir = await board.player()
    let rescued = round
    const leftovers = await gate.during(
      (session) => player.on(session).complete(round),
      async () => {
        await stage.expire(player.processId)
        rescued = await heir.take()
      },
    )
    expect(outcomes(leftovers)).toEqual(['a lost'])
    expect(await board.job('a')).toMatchObject({ claimed_by: heir.processId, fence: rescued.fence })
    expect(await heir.complete(rescued)).toEqual([])
  })

  test('P6 a failure of a lost claim delays nothing', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const round = await player.take()
    const heir = await board.player()
    const leftovers = await gate.during(
      (session) => player.on(session).fail([round], 1_000),
      async () => {
        await stage.expire(player.processId)
        await heir.release(await heir.take())
      },
    )
    expect(outcomes(leftovers)).toEqual(['a lost'])
    expect(await board.job('a')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 1 })
    await heir.take()
  })

  test('R7 P5 a death spares what was pushed in between', async () => {
    await board.push({ id: 'a', payload: 'v', score: 5 })
    const round = await player.take()
    const leftovers = await gate.during(
      (session) => player.on(session).fail([round], null),
      () => board.push({ id: 'a', payload: 'v', score: 1 }).then(() => {}),
    )
    expect(outcomes(leftovers)).toEqual(['a again'])
    expect(await board.set('a')).toEqual(['v[1]'])
    expect(await board.dead('a')).toMatchObject([{ payload: 'v', score: 5 }])
  })
})

describe('a push that meets an end', () => {
  test.each(['COMMIT', 'ROLLBACK'])('P3 waits for it and is handed over in any case: %s', async (end) => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const round = await player.take()
    const tx = await stage.transaction()
    expect(await player.completeIn(tx, round)).toEqual([])

    const producer = await stage.session()
    const pid = await pidOf(producer)
    const pushed = board.pushOn(producer, { id: 'a', payload: 'v', score: 2 })
    await untilBlocked(stage, pid)
    await tx.query(end)
    await pushed

    if (end === 'ROLLBACK') expect(outcomes(await player.complete(round))).toEqual(['a again'])
    expect(shown([await player.take()])).toEqual(['a: v[2]'])
    expect(await board.countPayloads()).toBe(1)
  })

  test('R4 merges into the job that its failure left', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const round = await player.take()
    const open = await stage.transaction()
    await player.on(open).fail([round], 1_000)
    const producer = await stage.session()
    const pid = await pidOf(producer)
    const pushed = board.pushOn(producer, { id: 'a', payload: 'w', score: 2 })
    await untilBlocked(stage, pid)
    await open.query('COMMIT')
    await pushed
    expect(await board.set('a')).toEqual(['v[1]', 'w[2]'])
    expect(await board.job('a')).toMatchObject({ retry_count: 0, nextPerformIn: null })
  })
})
