import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeError } from '../../src/errors.ts'
import { failure } from '../../src/worker/performing/ending.ts'
import { type Board, openStage, outcomes, type Player, type Stage } from '../support/rounds.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

/** A queue whose retries are due at once. */
async function start(maxRetryCount: number, maxPayloads?: number): Promise<[Board, Player]> {
  const board = await stage.queue({ maxRetryCount, maxPayloads, retryIn: () => 0 })
  return [board, await board.player()]
}

/** Takes the due job and fails it by its queue's policy; resolves to what the handler had got. */
async function failNext(board: Board, player: Player): Promise<string> {
  const round = await player.take()
  const { retryIn, error } = failure(board.queue, round, `${round.payloads[0]} failed`, describeError)
  await player.fail([round], retryIn, error)
  return round.payloads.join('')
}

/** The payloads of every run until nothing is left. */
async function failToTheEnd(board: Board, player: Player): Promise<string[]> {
  const runs: string[] = []
  while ((await board.countJobs()) > 0) {
    expect(runs.length).toBeLessThan(50)
    runs.push(await failNext(board, player))
  }
  return runs
}

describe('R6 a failure', () => {
  test('counts up from −1 and waits retryIn seconds from now', async () => {
    const [board, player] = await start(25)
    await board.push({ id: 'a', payload: 'v', performIn: 1_000 })
    for (const retryCount of [0, 1, 2]) {
      const round = await player.take()
      expect(round.retryCount).toBe(retryCount - 1)
      await player.fail([round], 0, `error ${retryCount}`)
      expect(await board.job('a')).toMatchObject({ retry_count: retryCount, error: `error ${retryCount}` })
    }
    const before = Date.now()
    const [exception] = await player.fail([await player.take()], 3_600.25)
    const { performIn } = await board.job('a')
    expect(performIn - before).toBeGreaterThan(3_600_000)
    expect(performIn - before).toBeLessThan(3_630_000)
    expect(exception).toMatchObject({ id: 'a', outcome: 'again', shard: 0, lane: 0 })
    expect(exception!.performIn).toBeCloseTo(performIn * 1000, -3)
    expect((await player.claim()).rounds).toEqual([])
  })

  test('fails each id of a batch by itself, with its own error and time', async () => {
    const [board, player] = await start(25)
    await board.push({ id: 'a' }, { id: 'b' }, { id: 'c' })
    const { rounds } = await player.claim({ batchSize: 3 })
    const [a, b, c] = rounds
    expect(outcomes(await player.fail([c!], 50, 'not this one'))).toEqual(['c again'])
    expect(await player.complete(a!)).toEqual([])
    await player.fail([b!], null, 'dead')
    expect(await board.findJob('a')).toBeUndefined()
    expect(await board.findJob('b')).toBeUndefined()
    expect(await board.job('c')).toMatchObject({ error: 'not this one', retry_count: 0 })
    expect(await board.dead('b')).toMatchObject([{ payload: '', error: 'dead' }])
  })

  test('a success in between starts the count anew', async () => {
    const [board, player] = await start(25)
    await board.push({ id: 'a', payload: 1 })
    await failNext(board, player)
    const round = await player.take()
    await board.push({ id: 'a', payload: 2 })
    await player.complete(round)
    expect(await player.take()).toMatchObject({ retryCount: -1, error: null, payloads: [2] })
  })
})

describe('R7 death', () => {
  test('a, b, c always failing with maxRetryCount 3 die one after the other, after 4, 4 and 4 runs', async () => {
    const [board, player] = await start(3)
    await board.push(
      ...['b', 'c', 'a'].map((payload) => ({ id: 'x', payload, score: payload.charCodeAt(0) })),
    )
    expect(await failToTheEnd(board, player)).toEqual([
      ...Array(4).fill('abc'),
      ...Array(4).fill('bc'),
      ...Array(4).fill('c'),
    ])
    expect(await board.dead('x')).toEqual([
      { payload: 'a', score: 97, error: 'a failed' },
      { payload: 'b', score: 98, error: 'b failed' },
      { payload: 'c', score: 99, error: 'c failed' },
    ])
    expect(await board.countPayloads()).toBe(0)
  })

  test('with maxRetryCount 0 a payload runs once', async () => {
    const [board, player] = await start(0)
    await board.push({ id: 'x', payload: 'a', score: 1 }, { id: 'x', payload: 'b', score: 2 })
    expect(await failToTheEnd(board, player)).toEqual(['ab', 'b'])
    expect(await board.dead('x')).toHaveLength(2)
  })

  test('of equal scores the first pushed dies first', async () => {
    const [board, player] = await start(0)
    await board.push(...['z', 'y', 'x'].map((payload) => ({ id: 'x', payload, score: 1 })))
    expect(await failToTheEnd(board, player)).toEqual(['zyx', 'yx', 'x'])
  })

  test('leaves the rest with a clean count, due now, together with what was pushed meanwhile', async () => {
    const [board, player] = await start(0)
    await board.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'x', payload: 'b', score: 2 },
    )
    const round = await player.take()
    await board.push({ id: 'x', payload: 'c', score: 0, performIn: FUTURE })
    const before = Date.now() - 1_000
    const [exception] = await player.fail([round], null, 'boom')
    const job = await board.job('x')
    expect(job).toMatchObject({
      retry_count: -1,
      error: 'boom',
      crashes: 0,
      claimed_by: null,
      nextPerformIn: null,
    })
    expect(job.performIn).toBeGreaterThan(before)
    expect(exception).toMatchObject({ id: 'x', outcome: 'again' })
    expect(exception!.performIn).toBeCloseTo(job.performIn * 1000, -3)
    expect(await board.set('x')).toEqual(['c[0]', 'b[2]'])
    expect(await board.dead('x')).toMatchObject([{ payload: 'a', error: 'boom' }])
  })

  test('R3 of the only payload leaves what was pushed meanwhile its own time', async () => {
    const [board, player] = await start(0)
    await board.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'y', payload: 'a', performIn: PAST },
    )
    const { rounds } = await player.claim({ batchSize: 2 })
    await board.push(
      { id: 'x', payload: 'b', score: 2, performIn: FUTURE },
      { id: 'x', payload: 'c', score: 3, performIn: PAST },
      { id: 'y', payload: 'b', performIn: PAST },
    )
    const again = await player.fail(rounds, null, 'boom')
    expect(again.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toMatchObject([
      { id: 'x', outcome: 'again', performIn: FUTURE * 1000 },
      { id: 'y', outcome: 'again', performIn: PAST * 1000 },
    ])
    const numbers = { nextPerformIn: null, retry_count: -1, crashes: 0, claimed_by: null, error: 'boom' }
    expect(await board.job('x')).toMatchObject({ ...numbers, performIn: FUTURE })
    expect(await board.job('y')).toMatchObject({ ...numbers, performIn: PAST })
    expect(await board.set('x')).toEqual(['b[2]', 'c[3]'])
    expect((await player.claim({ batchSize: 2 })).rounds.map(({ id }) => id)).toEqual(['y'])
  })

  test('R9 of what maxPayloads took leaves what it did not take due now, and what was scheduled with it', async () => {
    const [board, player] = await start(0, 1)
    await board.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'x', payload: 'b', score: 2 },
    )
    const round = await player.take()
    await board.push({ id: 'x', payload: 'c', score: 3, performIn: FUTURE })
    await player.fail([round], null)
    expect((await board.job('x')).performIn).toBeLessThan(FUTURE)
    expect(await board.set('x')).toEqual(['b[2]', 'c[3]'])
    expect((await player.take()).payloads).toEqual(['b'])
  })

  test('keeps the error until the next success: through a push, a release and a claim', async () => {
    const [board, player] = await start(0)
    await board.push({ id: 'x', payload: 'a', score: 1 }, { id: 'x', payload: 'b', score: 2 })
    await player.fail([await player.take()], null, 'boom')
    await board.push({ id: 'x', payload: 'c', score: 3 })
    expect(await board.job('x')).toMatchObject({ error: 'boom', retry_count: -1 })
    await player.release(await player.take())
    const round = await player.take()
    expect(round).toMatchObject({ error: 'boom', retryCount: -1, payloads: ['b', 'c'] })
    await board.push({ id: 'x', payload: 'd', score: 4 })
    await player.complete(round)
    expect(await board.job('x')).toMatchObject({ error: null })
  })

  test('P5 takes the lowest of the failed round: a lower one pushed meanwhile is not touched', async () => {
    const [board, player] = await start(0)
    await board.push({ id: 'x', payload: 'a', score: 5 })
    const round = await player.take()
    await board.push({ id: 'x', payload: 'b', score: 1 })
    await player.fail([round], null)
    expect(await board.set('x')).toEqual(['b[1]'])
    expect(await board.dead('x')).toMatchObject([{ payload: 'a' }])
  })

  test('P5 leaves an equal payload that was pushed meanwhile', async () => {
    const [board, player] = await start(0)
    await board.push({ id: 'x', payload: 'a', score: 5 })
    const round = await player.take()
    await board.push({ id: 'x', payload: 'a', score: 9 })
    expect(outcomes(await player.fail([round], null))).toEqual(['x again'])
    expect(await board.set('x')).toEqual(['a[9]'])
    expect(await board.dead('x')).toMatchObject([{ payload: 'a', score: 5 }])
  })

  test('takes equal payloads of earlier rounds along', async () => {
    const [board, player] = await start(25)
    await board.push({ id: 'x', payload: 'a', score: 5 })
    const round = await player.take()
    await board.push({ id: 'x', payload: 'a', score: 3 })
    await player.fail([round])
    expect(await board.countPayloads()).toBe(2)
    await player.fail([await player.take()], null)
    expect(await board.countJobs()).toBe(0)
    expect(await board.countPayloads()).toBe(0)
    expect(await board.dead('x')).toMatchObject([{ payload: 'a', score: 3 }])
  })

  test('a payload that dies twice lies in the morgue once, with the newer error', async () => {
    const [board, player] = await start(0)
    for (const [score, error] of [
      [1, 'first'],
      [2, 'second'],
    ] as const) {
      await board.push({ id: 'x', payload: 'a', score })
      await player.fail([await player.take()], null, error)
    }
    expect(await board.dead('x')).toEqual([{ payload: 'a', score: 1, error: 'second' }])
  })

  test('with maxPayloads the lowest of all dies, and what the round left behind is handed over', async () => {
    const [board, player] = await start(1, 2)
    await board.push(...['a', 'b', 'c'].map((payload, score) => ({ id: 'x', payload, score })))
    expect(await failToTheEnd(board, player)).toEqual(['ab', 'ab', 'bc', 'bc', 'c', 'c'])
  })

  test('several deaths in one batch, some with and some without a rest', async () => {
    const [board, player] = await start(0)
    await board.push(
      ...['a', 'b', 'c'].flatMap((id) => [1, 2].map((score) => ({ id, payload: score, score }))),
    )
    await board.push({ id: 'd', payload: 1 }, { id: 'e', payload: 1 })
    const { rounds } = await player.claim({ batchSize: 10 })
    expect(outcomes(await player.fail(rounds, null))).toEqual(['a again', 'b again', 'c again'])
    expect(await board.countJobs()).toBe(3)
    expect(await board.countPayloads()).toBe(3)
    for (const id of ['a', 'b', 'c', 'd', 'e'])
      expect(await board.dead(id)).toMatchObject([{ payload: 1, error: 'failed' }])
  })
})
