import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
import type { Leftover } from '../../src/store/settle.ts'
import { type Board, openStage, outcomes, type Player, type Stage } from '../support/rounds.ts'

let stage: Stage
let board: Board
let old: Player
let next: Player

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
beforeEach(async () => {
  board = await stage.queue()
  old = await board.player()
  next = await board.player()
})

const ENDS: [string, (player: Player, round: Round) => Promise<Leftover[]>][] = [
  ['complete', (player, round) => player.complete(round)],
  ['fail', (player, round) => player.fail([round], 1_000, 'too late')],
  ['bury', (player, round) => player.fail([round], null, 'too late')],
  ['release', (player, round) => player.release(round)],
  ['count a crash', (player, round) => player.crash(round)],
]

/** Everything the database knows of the board. */
async function everything() {
  const rows = (table: string) =>
    stage.query(`SELECT to_jsonb(t) AS row FROM lockstep.${table} t WHERE queue_id = $1 ORDER BY t`, [
      board.queueId,
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
    await board.push({ id: 'a', payload: 1 }, { id: 'a', payload: 2 })
    const lost = await old.take()
    await stage.expire(old.processId)
    await next.take()
    await board.push({ id: 'a', payload: 3 })
    await changesNothing(() => end(old, lost))
  })

  test('when it has claimed the job anew itself: an old fence proves nothing', async () => {
    await board.push({ id: 'a', payload: 1 })
    const first = await old.take()
    await old.release(first)
    await old.take()
    await changesNothing(() => end(old, first))
  })

  test('when the job waits', async () => {
    await board.push({ id: 'a', payload: 1 })
    const released = await old.take()
    await old.release(released)
    await changesNothing(() => end(old, released))
  })

  test('when the job was finished and pushed again', async () => {
    await board.push({ id: 'a', payload: 1 })
    const done = await old.take()
    await old.complete(done)
    await changesNothing(() => end(old, done))
    await board.push({ id: 'a', payload: 2 })
    await changesNothing(() => end(old, done))
    await next.take()
    await changesNothing(() => end(old, done))
  })

  test('when it has claimed what was pushed after the job was finished: fences only grow', async () => {
    await board.push({ id: 'a', payload: 1 })
    await old.release(await old.take())
    const done = await old.take()
    await old.complete(done)
    await board.push({ id: 'a', payload: 2 })
    await old.take()
    await changesNothing(() => end(old, done))
  })

  test('with somebody else’s fence', async () => {
    await board.push({ id: 'a', payload: 1 })
    const round = await old.take()
    await changesNothing(() => end(next, round))
    expect(await old.complete(round)).toEqual([])
  })

  test('in another queue, where an id of the same name is in work', async () => {
    const other = await stage.queue()
    await board.push({ id: 'a', payload: 1 })
    await other.push({ id: 'a', payload: 1 })
    const theirs = await (await other.player()).take()
    await old.take()
    await changesNothing(() => end(old, theirs))
  })

  test('but its other claims of the same call end', async () => {
    await board.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 }, { id: 'c', payload: 1 })
    const { rounds } = await old.claim({ batchSize: 3 })
    const [a, b, c] = rounds
    await old.complete(b!)
    expect(outcomes(await old.complete(a!, b!, c!))).toEqual(['b lost'])
    expect(await board.countJobs()).toBe(0)
  })
})

describe('P6 a completion in a transaction', () => {
  test('is fenced too, and with the rollback nothing has happened', async () => {
    await board.push({ id: 'a', payload: 1 })
    const round = await old.take()
    const tx = await stage.transaction()
    expect(await old.completeIn(tx, round)).toEqual([])
    await tx.query('ROLLBACK')
    expect(await board.job('a')).toMatchObject({ claimed_by: old.processId, fence: round.fence })

    await stage.expire(old.processId)
    await next.take()
    await tx.query('BEGIN')
    expect(outcomes(await old.completeIn(tx, round))).toEqual(['a lost'])
    await tx.query('ROLLBACK')
    await stage.endSessions()
  })

  test('P4 ends the round together with the handler’s writes', async () => {
    await stage.query('CREATE TABLE IF NOT EXISTS written (n integer)')
    await board.push({ id: 'a', payload: 1 })
    const round = await old.take()
    const tx = await stage.transaction()
    await tx.query('INSERT INTO written VALUES (1)')
    expect(await old.completeIn(tx, round)).toEqual([])
    expect(await board.countJobs()).toBe(1)
    await tx.query('COMMIT')
    expect(await board.countJobs()).toBe(0)
    expect(await stage.query('SELECT * FROM written')).toEqual([{ n: 1 }])
    await stage.endSessions()
  })
})

describe('P3 a sequence of fences that stands behind its rows, as after a restore of the tables alone', () => {
  let apart: Stage

  beforeAll(async () => {
    apart = await openStage()
  })
  afterAll(() => apart?.close())

  test('stops claims with the cure, and no payload is lost', async () => {
    const queue = await apart.queue()
    const player = await queue.player()
    await queue.push({ id: 'a', payload: 1, score: 1 })
    await player.release(await player.take())
    await apart.query(`SELECT setval('lockstep.fences', 1, false)`)
    const error = await player.claim().catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'LOCKSTEP_SEQUENCE_BEHIND' })
    expect(await queue.set('a')).toEqual(['1[1]'])
    const [, cure] = /run: (SELECT .*)$/.exec(error.message)!
    await apart.query(cure!)
    expect((await player.take()).payloads).toEqual([1])
  })

  test('lets jobs be claimed that were pushed since', async () => {
    const queue = await apart.queue()
    const player = await queue.player()
    await apart.query(`SELECT setval('lockstep.fences', 1, false)`)
    await queue.push({ id: 'b', payload: 2 })
    expect((await player.take()).payloads).toEqual([2])
  })
})
