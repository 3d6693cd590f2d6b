import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { removeProcess, renewLeases, sweepProcesses } from '../../src/store/process.ts'
import {
  type Board,
  openStage,
  outcomes,
  type Player,
  pidOf,
  type Stage,
  shown,
  until,
  untilBlocked,
} from '../support/rounds.ts'

const PAST = 1_536_323_288_000

let stage: Stage
let board: Board
let dying: Player
let heir: Player

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue({ batchSize: 10 })
  dying = await board.player()
  heir = await board.player()
})
afterEach(() => stage.endSessions())

const renew = (processId: number, on: Parameters<typeof renewLeases>[0] = stage.database.pool) =>
  renewLeases(on, 'lockstep', [processId], 60_000)

const hasEnded = async (processId: number) => {
  const [row] = await stage.query<{ ended: boolean }>(
    'SELECT expires_at <= clock_timestamp() AS ended FROM lockstep.processes WHERE process_id = $1',
    [processId],
  )
  return row!.ended
}

const isKnown = async (processId: number) =>
  (await stage.query('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])).length === 1

describe('R10 a round whose process died', () => {
  test('is claimable again with its numbers unchanged and a crash counted', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1, performIn: PAST })
    await dying.fail([await dying.take()])
    const lost = await dying.take()
    await board.push({ id: 'a', payload: 'w', score: 2, performIn: 4_102_444_800_000 })
    await stage.expire(dying.processId)

    const rescued = await heir.take()
    expect(rescued).toMatchObject({
      rescued: true,
      crashes: 1,
      retryCount: 0,
      error: 'failed',
      performIn: lost.performIn,
    })
    expect(rescued.fence).toBeGreaterThan(lost.fence)
    expect(shown([rescued])).toEqual(['a: v[1] w[2]'])
    expect(await heir.complete(rescued)).toEqual([])
    expect(await board.countJobs()).toBe(0)
  })

  test('is claimable too when the process has left the table', async () => {
    await board.push({ id: 'a' })
    await dying.take()
    await removeProcess(stage.database.pool, 'lockstep', dying.processId)
    expect(await heir.take()).toMatchObject({ rescued: true, crashes: 1 })
  })

  test('stays its own while the lease runs', async () => {
    await board.push({ id: 'a' })
    await dying.take()
    expect((await heir.claim()).rounds).toEqual([])
    expect((await dying.claim()).rounds).toEqual([])
  })

  test('counts crashes in a row; an end of any kind but a release starts anew', async () => {
    await board.push({ id: 'a' })
    const crash = async () => {
      const victim = await board.player()
      const round = await victim.take()
      await stage.expire(victim.processId)
      return round.crashes
    }
    expect([await crash(), await crash(), await crash()]).toEqual([0, 1, 2])
    const third = await heir.take()
    expect(third.crashes).toBe(3)
    await heir.release(third)
    const again = await heir.take()
    expect(again).toMatchObject({ crashes: 3, rescued: false })

    await heir.fail([again])
    expect(await crash()).toBe(0)
    const rescued = await heir.take()
    expect(rescued.crashes).toBe(1)
    await board.push({ id: 'a', payload: 2 })
    await heir.complete(rescued)
    expect((await heir.take()).crashes).toBe(0)
  })

  test('is taken alone, and what stands before it goes first', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e']
    await board.push({ id: 'c', performIn: PAST })
    await dying.claim()
    await stage.expire(dying.processId)
    await board.push(...ids.map((id) => ({ id, performIn: PAST })))

    const taken: string[][] = []
    for (let n = 0; n < 3; n += 1) taken.push((await heir.claim()).rounds.map(({ id }) => id))
    expect(taken).toEqual([['a', 'b'], ['c'], ['d', 'e']])
  })

  test('stays a suspect when it is given back', async () => {
    await board.push({ id: 'b', performIn: PAST })
    await dying.claim()
    await stage.expire(dying.processId)
    await heir.release(await heir.take())
    await board.push({ id: 'a', performIn: PAST - 1 }, { id: 'c', performIn: PAST + 1 })
    const batch = async () => (await heir.claim()).rounds.map(({ id }) => id)
    expect([await batch(), await batch(), await batch()]).toEqual([['a'], ['b'], ['c']])
  })

  test('several of one dead process go to several heirs, each once', async () => {
    const ids = ['a', 'b', 'c', 'd']
    await board.push(...ids.map((id) => ({ id, performIn: PAST })))
    await dying.claim()
    await stage.expire(dying.processId)
    const claims = await Promise.all(ids.map(async () => (await board.player()).claim()))
    const taken = claims.flatMap(({ rounds }) => rounds.map(({ id }) => id))
    expect(taken).toEqual([...new Set(taken)])
    while (taken.length < ids.length) taken.push((await heir.take()).id)
    expect(taken.sort()).toEqual(ids)
  })
})

describe('P1 a lease', () => {
  test('that has ended is never renewed', async () => {
    expect(await renew(dying.processId)).toEqual([dying.processId])
    await stage.expire(dying.processId)
    expect(await renew(dying.processId)).toEqual([])
    expect(await hasEnded(dying.processId)).toBe(true)
  })

  test('that has ended claims nothing: the server would give the job to the next one too', async () => {
    await board.push({ id: 'a' })
    await stage.expire(dying.processId)
    expect(await dying.claim()).toEqual({ rounds: [], head: null, passed: false })
    await removeProcess(stage.database.pool, 'lockstep', dying.processId)
    expect(await dying.claim()).toEqual({ rounds: [], head: null, passed: false })
    expect(await board.job('a')).toMatchObject({ claimed_by: null })
  })

  test('that is being renewed right now has not ended, whatever the committed row says', async () => {
    const slow = await board.player(300)
    await board.push({ id: 'a' })
    await slow.take()
    const renewal = await stage.transaction()
    expect(await renew(slow.processId, renewal)).toEqual([slow.processId])
    await until(async () => expect(await hasEnded(slow.processId)).toBe(true))

    expect((await heir.claim()).rounds).toEqual([])
    await renewal.query('COMMIT')
    expect(await hasEnded(slow.processId)).toBe(false)
    expect((await heir.claim()).rounds).toEqual([])
  })

  test('can’t be renewed any more once a claimer has found it ended: it waits for that, and is gone', async () => {
    await board.push({ id: 'a' })
    const lost = await dying.take()
    await stage.expire(dying.processId)
    const claiming = await stage.transaction()
    const [round] = (await heir.on(claiming).claim()).rounds

    // A renewal whose statement began before the lease ended would see it running: let it run again.
    const renewal = await stage.session()
    const pid = await pidOf(renewal)
    const renewed = renewal.query(
      `UPDATE lockstep.processes SET expires_at = clock_timestamp() + interval '1 hour' WHERE process_id = $1`,
      [dying.processId],
    )
    await untilBlocked(stage, pid)
    await claiming.query('COMMIT')
    expect((await renewed).rowCount).toBe(0)
    expect(await isKnown(dying.processId)).toBe(false)
    expect(outcomes(await dying.complete(lost))).toEqual(['a lost'])
    expect(await heir.complete(round!)).toEqual([])
  })

  test('a claim that is rolled back leaves the process where it was', async () => {
    await board.push({ id: 'a' })
    const round = await dying.take()
    await stage.expire(dying.processId)
    const claiming = await stage.transaction()
    expect((await heir.on(claiming).claim()).rounds).toHaveLength(1)
    await claiming.query('ROLLBACK')
    expect(await isKnown(dying.processId)).toBe(true)
    expect(await board.job('a')).toMatchObject({ claimed_by: dying.processId, fence: round.fence })
  })

  test('processes are swept a minute after their end, live ones are not', async () => {
    await stage.expire(dying.processId)
    await sweepProcesses(stage.database)
    expect(await isKnown(dying.processId)).toBe(true)
    await stage.query(
      `UPDATE lockstep.processes SET expires_at = expires_at - interval '1 minute' WHERE process_id = $1`,
      [dying.processId],
    )
    await sweepProcesses(stage.database)
    expect(await isKnown(dying.processId)).toBe(false)
    expect(await isKnown(heir.processId)).toBe(true)
  })
})
