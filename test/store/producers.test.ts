import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Board,
  openStage,
  type Player,
  pidOf,
  type Stage,
  shown,
  untilBlocked,
} from '../support/rounds.ts'

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
afterEach(() => stage.endSessions())

describe('P4 an enqueue in a transaction', () => {
  test('exists when that commits, and not before', async () => {
    const tx = await stage.transaction()
    await board.pushIn(tx, { id: 'a', payload: 'v', score: 1 })
    expect(await board.countJobs()).toBe(0)
    expect((await player.claim()).rounds).toEqual([])
    await tx.query('COMMIT')
    expect(shown([await player.take()])).toEqual(['a: v[1]'])
  })

  test('leaves nothing when that rolls back', async () => {
    await board.push({ id: 'waiting', payload: 'v', score: 5, performIn: 1_000 }, { id: 'working' })
    const { rounds } = await player.claim({ cursor: { after: 2_000_000, afterId: '' } })
    expect(rounds.map(({ id }) => id)).toEqual(['working'])
    const tx = await stage.transaction()
    await board.pushIn(
      tx,
      { id: 'new' },
      { id: 'waiting', payload: 'v', score: 1 },
      { id: 'waiting', payload: 'w' },
      { id: 'working', payload: 'w' },
    )
    await tx.query('ROLLBACK')
    expect(await board.findJob('new')).toBeUndefined()
    expect(await board.set('waiting')).toEqual(['v[5]'])
    expect(await board.job('working')).toMatchObject({ nextPerformIn: null })
    expect(await player.complete(...rounds)).toEqual([])
  })

  test('goes with the savepoint it was made in', async () => {
    const tx = await stage.transaction()
    await board.pushIn(tx, { id: 'kept' })
    await tx.query('SAVEPOINT s')
    await board.pushIn(tx, { id: 'undone' })
    await tx.query('ROLLBACK TO s; COMMIT')
    expect(await board.countJobs()).toBe(1)
    expect(await board.findJob('kept')).toBeDefined()
  })
})

describe('two open transactions that push', () => {
  test('one id wait for each other, and both are handed over', async () => {
    const [one, two] = [await stage.transaction(), await stage.transaction()]
    const pid = await pidOf(two)
    await board.pushIn(one, { id: 'a', payload: 'v', score: 1 })
    const pushed = board.pushIn(two, { id: 'a', payload: 'w', score: 2 })
    await untilBlocked(stage, pid)
    await one.query('COMMIT')
    await pushed
    await two.query('COMMIT')
    expect(await board.set('a')).toEqual(['v[1]', 'w[2]'])
  })

  test('other ids of one queue do not', async () => {
    const [one, two] = [await stage.transaction(), await stage.transaction()]
    await board.pushIn(one, { id: 'a' })
    await board.pushIn(two, { id: 'b' })
    await Promise.all([one.query('COMMIT'), two.query('COMMIT')])
    expect(await board.countJobs()).toBe(2)
  })

  // `middle` makes sure that each holds what the other wants, if they took their locks in the order given.
  const IDS = ['a', 'B', 'b', 'é', 'm', 'z', 'Z', '\u{1f600}', '\uff5e']
  test.each([
    ['new ids', false],
    ['waiting ids', true],
  ])('the same ids in opposite order can’t deadlock: %s', async (_name, waiting) => {
    if (waiting) await board.push(...IDS.map((id) => ({ id, payload: 'before' })))
    const middle = await stage.transaction()
    await board.pushIn(middle, { id: 'm' })
    const arrays = [IDS, IDS.toReversed()]
    const pushes = []
    for (const ids of arrays) {
      const session = await stage.session()
      const pid = await pidOf(session)
      const rows = ids.map(() => null)
      const values = [board.queue.name, ids, rows, rows, rows, rows]
      pushes.push(session.query('SELECT lockstep.enqueue_many($1, $2, $3, $4, $5, $6)', values))
      await untilBlocked(stage, pid)
    }
    await middle.query('COMMIT')
    await Promise.all(pushes)
    expect(await board.countJobs()).toBe(IDS.length)
  })

  test('some new and some waiting can’t deadlock: who waits for an id has locked none behind it', async () => {
    await board.push({ id: 'a', payload: 'before' })
    const [one, two] = [await stage.transaction(), await stage.transaction()]
    const pid = await pidOf(two)
    await board.pushIn(one, { id: 'a' })
    const pushed = board.pushIn(two, { id: 'a' }, { id: 'b' })
    await untilBlocked(stage, pid)
    await board.pushIn(one, { id: 'b' }, { id: 'c' })
    await one.query('COMMIT')
    await pushed
    await two.query('COMMIT')
    expect(await board.countJobs()).toBe(3)
  })

  test('thousands of the same ids in opposite order, in several statements, can’t deadlock either', async () => {
    const jobs = Array.from({ length: 2_500 }, (_, i) => ({ id: `${i}` }))
    const middle = await stage.transaction()
    await board.pushIn(middle, { id: '55' })
    const transactions = [await stage.transaction(), await stage.transaction()]
    const pushes = []
    for (const [index, tx] of transactions.entries()) {
      const pid = await pidOf(tx)
      pushes.push(board.pushIn(tx, ...(index ? jobs.toReversed() : jobs)).then(() => tx.query('COMMIT')))
      await untilBlocked(stage, pid)
    }
    await middle.query('COMMIT')
    await Promise.all(pushes)
    expect(await board.countJobs()).toBe(2_500)
  })
})

describe.each(['REPEATABLE READ', 'SERIALIZABLE'])('P3 a producer at %s', (level) => {
  const conflict = { name: 'DatabaseError', code: 'LOCKSTEP_CONFLICT' }
  /** A transaction whose snapshot is taken. */
  const begin = async () => {
    const tx = await stage.transaction(`BEGIN ISOLATION LEVEL ${level}`)
    await tx.query('SELECT FROM lockstep.jobs')
    return tx
  }

  test('pushes new and waiting ids', async () => {
    await board.push({ id: 'a', payload: 'v', score: 2 })
    const tx = await begin()
    await board.pushIn(tx, { id: 'a', payload: 'w', score: 1 }, { id: 'b', payload: 'v', score: 1 })
    await tx.query('COMMIT')
    expect(await board.set('a')).toEqual(['w[1]', 'v[2]'])
    expect(await board.set('b')).toEqual(['v[1]'])
  })

  test('gets a conflict for a job it can’t see, and stores nothing', async () => {
    const tx = await begin()
    await board.push({ id: 'a', payload: 'v', score: 1 })
    await expect(board.pushIn(tx, { id: 'a', payload: 'w' })).rejects.toMatchObject(conflict)
    await tx.query('ROLLBACK')
    expect(await board.set('a')).toEqual(['v[1]'])
  })

  test('gets a conflict for a job that was claimed meanwhile: its fence would be the old one', async () => {
    await board.push({ id: 'a', payload: 'v' })
    const tx = await begin()
    const round = await player.take()
    await expect(board.pushIn(tx, { id: 'a', payload: 'w' })).rejects.toMatchObject(conflict)
    await tx.query('ROLLBACK')
    expect(await player.complete(round)).toEqual([])
  })

  test('pushes while the id is in work', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const round = await player.take()
    const tx = await begin()
    await board.pushIn(tx, { id: 'a', payload: 'v', score: 2 })
    await tx.query('COMMIT')
    await player.complete(round)
    expect(shown([await player.take()])).toEqual(['a: v[2]'])
  })

  test('loses nothing that it pushes for a job it still sees though it has been finished', async () => {
    await board.push({ id: 'a', payload: 'v', score: 1 })
    const tx = await begin()
    await player.complete(await player.take())
    const stored = await board.pushIn(tx, { id: 'a', payload: 'w', score: 2 }).then(
      () => tx.query('COMMIT').then(() => true),
      (error) => {
        expect(error).toMatchObject(conflict)
        return false
      },
    )
    await stage.endSessions()
    if (!stored) await board.push({ id: 'a', payload: 'w', score: 2 })
    const round = await player.take()
    expect(shown([round])).toEqual(['a: w[2]'])
    expect(await player.complete(round)).toEqual([])
    expect(await board.countPayloads()).toBe(0)
  })
})
