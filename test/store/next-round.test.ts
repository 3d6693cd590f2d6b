import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Board, openStage, outcomes, type Player, type Stage, shown } from '../support/rounds.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let stage: Stage
let board: Board
let player: Player

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue()
  player = await board.player()
})

describe('R3 a push while the id is in work', () => {
  test('starts the next round: its own time, a clean count, the row’s lane', async () => {
    await board.push({ id: 'a', payload: 'old', score: 1, lane: 2, performIn: PAST })
    const [failedRound] = (await player.claim({ lane: 2 })).rounds
    await player.fail([failedRound!])
    const [round] = (await player.claim({ lane: 2 })).rounds
    await board.push({ id: 'a', payload: 'new', score: 2, lane: 5, performIn: FUTURE })
    expect(await board.job('a')).toMatchObject({ retry_count: 0, nextPerformIn: FUTURE })

    expect(await player.complete(round!)).toMatchObject([
      { id: 'a', outcome: 'again', shard: 0, lane: 2, performIn: FUTURE * 1000 },
    ])
    expect(await board.job('a')).toMatchObject({
      performIn: FUTURE,
      nextPerformIn: null,
      retry_count: -1,
      error: null,
      lane: 2,
      claimed_by: null,
    })
    expect(await board.set('a')).toEqual(['new[2]'])
  })

  test('a second push does not move its time', async () => {
    await board.push({ id: 'a', payload: 1, performIn: PAST })
    const round = await player.take()
    await board.push({ id: 'a', payload: 2, performIn: FUTURE })
    await board.push({ id: 'a', payload: 3, performIn: PAST })
    await board.push({ id: 'a', payload: 4, performIn: FUTURE + 1_000 })
    expect(await board.job('a')).toMatchObject({ performIn: PAST, nextPerformIn: FUTURE })

    await player.complete(round)
    expect(await board.job('a')).toMatchObject({ performIn: FUTURE })
  })

  test('is out of the round in work, which ends as it began', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const round = await player.take()
    expect(shown([round])).toEqual(['a: v[1]'])
    await board.push({ id: 'a', payload: 'w', score: 0 })
    expect((await player.claim()).rounds).toEqual([])
    expect((await (await board.player()).claim()).rounds).toEqual([])
  })

  test('merges with other pushes of the next round by R2', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const round = await player.take()
    await board.push({ id: 'a', payload: 'w', score: 10 })
    await board.push({ id: 'a', payload: 'w', score: 3 }, { id: 'a', payload: 'u', score: 5 })
    await player.complete(round)
    expect(shown([await player.take()])).toEqual(['a: w[3] u[5]'])
  })
})

describe('P5 no push is swallowed', () => {
  test('a payload equal to the one in work is handed over in the next round', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const first = await player.take()
    await board.push({ id: 'a', payload: 'v', score: 9 })
    expect(outcomes(await player.complete(first))).toEqual(['a again'])

    const second = await player.take()
    expect(shown([second])).toEqual(['a: v[9]'])
    expect(await player.complete(second)).toEqual([])
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
  })

  test('in a batch, the ids pushed anew go on and the others are gone', async () => {
    const ids = ['a', 'b', 'c', 'd']
    await board.push(...ids.map((id) => ({ id, payload: 'v', score: 1 })))
    const { rounds } = await player.claim({ batchSize: 4 })
    await board.push({ id: 'b', payload: 'v', score: 2 }, { id: 'd', payload: 'w', score: 3 })
    expect(outcomes(await player.complete(...rounds))).toEqual(['b again', 'd again'])

    const next = await player.claim({ batchSize: 4 })
    expect(shown(next.rounds)).toEqual(['b: v[2]', 'd: w[3]'])
    expect(await player.complete(...next.rounds)).toEqual([])
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
  })

  test('round after round', async () => {
    await board.push({ id: 'a', payload: 0, score: 0 })
    for (let n = 0; n < 5; n += 1) {
      const round = await player.take()
      expect(shown([round])).toEqual([`a: ${n}[${n}]`])
      await board.push({ id: 'a', payload: n + 1, score: n + 1 })
      await player.complete(round)
    }
  })

  test('what is pushed after a completion is a new job', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1, lane: 0 })
    await player.complete(await player.take())
    await board.push({ id: 'a', payload: 'v', score: 2, lane: 4, performIn: FUTURE })
    expect(await board.job('a')).toMatchObject({
      retry_count: -1,
      claimed_by: null,
      lane: 4,
      performIn: FUTURE,
    })
    expect(await board.set('a')).toEqual(['v[2]'])
  })
})

describe('R4 a failed round and what was pushed meanwhile', () => {
  test('unite by the smaller score; time, count and error are the failed job’s', async () => {
    await board.push({ id: 'a', payload: 'v', score: 5 }, { id: 'a', payload: 'w', score: 2 })
    const round = await player.take()
    await board.push(
      { id: 'a', payload: 'v', score: 1, performIn: FUTURE },
      { id: 'a', payload: 'w', score: 7 },
      { id: 'a', payload: 'x', score: 3 },
    )
    const before = Date.now()
    expect(outcomes(await player.fail([round], 100, 'boom'))).toEqual(['a again'])
    const job = await board.job('a')
    expect(job).toMatchObject({ retry_count: 0, error: 'boom', nextPerformIn: null, claimed_by: null })
    expect(job.performIn).toBeGreaterThan(before + 95_000)
    expect(job.performIn).toBeLessThan(before + 130_000)
    expect(await board.set('a')).toEqual(['v[1]', 'w[2]', 'x[3]'])
  })

  test('are one round, whose completion leaves nothing behind', async () => {
    await board.push({ id: 'a', payload: 'v', score: 5 })
    for (let n = 0; n < 3; n += 1) {
      const round = await player.take()
      await board.push({ id: 'a', payload: 'v', score: 4 - n }, { id: 'a', payload: n, score: 10 + n })
      await player.fail([round])
    }
    const round = await player.take()
    expect(shown([round])).toEqual(['a: v[2] 0[10] 1[11] 2[12]'])
    expect(round).toMatchObject({ retryCount: 2, error: 'failed' })
    await player.complete(round)
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
  })

  test('pushed after the failure, they merge as into any waiting job', async () => {
    await board.push({ id: 'a', payload: 'v', score: 5 })
    await player.fail([await player.take()], 1_000)
    const { performIn } = await board.job('a')
    await board.push({ id: 'a', payload: 'v', score: 9 }, { id: 'a', payload: 'w', score: 1 })
    expect(await board.set('a')).toEqual(['w[1]', 'v[5]'])
    expect(await board.job('a')).toMatchObject({ performIn, retry_count: 0 })
  })
})

describe('R15 a released round', () => {
  test('waits with its numbers unchanged and what was pushed meanwhile', async () => {
    await board.push({ id: 'a', payload: 'v', score: 5, performIn: PAST })
    await player.fail([await player.take()])
    const { performIn } = await board.job('a')
    const round = await player.take()
    await board.push({ id: 'a', payload: 'w', score: 1, performIn: FUTURE })
    expect(outcomes(await player.release(round))).toEqual(['a again'])
    expect(await board.job('a')).toMatchObject({
      performIn,
      nextPerformIn: null,
      retry_count: 0,
      error: 'failed',
      crashes: 0,
    })
    expect(shown([await player.take()])).toEqual(['a: w[1] v[5]'])
  })
})
