import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { growQueue, setShards } from '../../src/store/queue.ts'
import { type Board, openStage, pidOf, type Stage, through, untilBlocked } from '../support/rounds.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())
afterEach(() => stage.endSessions())

const grow = ({ queueId }: Board, shards: number) => growQueue(stage.database, queueId, shards)

async function shardsOf({ queueId }: Board): Promise<number> {
  const [row] = await stage.query<{ shards: number }>(
    'SELECT shards FROM lockstep.queues WHERE queue_id = $1',
    [queueId],
  )
  return row!.shards
}

describe('a queue', () => {
  test('grows once, and never shrinks', async () => {
    const board = await stage.queue({ shards: 3 })
    expect(await grow(board, 8)).toBe(true)
    expect(await grow(board, 8)).toBe(false)
    expect(await grow(board, 2)).toBe(false)
    expect(await shardsOf(board)).toBe(8)
  })

  test('has 16,384 shards at most', async () => {
    const board = await stage.queue({ shards: 3 })
    await expect(grow(board, 16_385)).rejects.toMatchObject({ code: '23514' })
    expect(await shardsOf(board)).toBe(3)
  })

  test('that was deleted meanwhile does not grow, nor does the one that has its name now', async () => {
    const board = await stage.queue({ shards: 3 })
    await stage.query('DELETE FROM lockstep.queues WHERE queue_id = $1', [board.queueId])
    await stage.query('SELECT lockstep.create_queue($1, 3)', [board.queue.name])
    expect(await grow(board, 8)).toBe(false)
    expect(
      await stage.query('SELECT shards FROM lockstep.queues WHERE name = $1', [board.queue.name]),
    ).toEqual([{ shards: 3 }])
  })
})

describe('what somebody else is about to commit counts', () => {
  /** A queue of so many shards, and one who has given it others but not yet committed that. */
  async function changing(before: number, after: number) {
    const board = await stage.queue({ shards: before })
    const other = await stage.transaction()
    await setShards(through(other, stage.database), board.queueId, after)
    return { board, other }
  }

  test.each([
    ['a worker that grows it further', 24, false],
    ['a worker that grows it as far', 8, false],
    ['a worker that grows it less', 5, true],
    ['a reshard to fewer', 2, true],
  ])('%s', async (_, meanwhile, grew) => {
    const { board, other } = await changing(3, meanwhile)
    const session = await stage.session()
    const pid = await pidOf(session)
    const growing = growQueue(through(session, stage.database), board.queueId, 8)
    await untilBlocked(stage, pid)
    await other.query('COMMIT')
    expect(await growing).toBe(grew)
    expect(await shardsOf(board)).toBe(Math.max(meanwhile, 8))
  })

  test('but a reshard from more to fewer comes after it: that is not waited for', async () => {
    const { board, other } = await changing(12, 2)
    expect(await grow(board, 8)).toBe(false)
    await other.query('COMMIT')
    expect(await shardsOf(board)).toBe(2)
  })
})
