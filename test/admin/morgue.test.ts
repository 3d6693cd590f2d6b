import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type DeadFilter, OptionError, type Progress } from '../../src/index.ts'
import { type Board, openStage, pidOf, type Stage, until, untilBlocked } from '../support/rounds.ts'
import { bury, FUTURE } from './bury.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterEach(() => stage.endSessions())
afterAll(() => stage?.close())

const numbered = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: String(n).padStart(4, '0'), payload: n }))

async function deadIn(board: Board, filter: DeadFilter = {}): Promise<string[]> {
  const { items } = await stage.lockstep.findDead(board.queue, { ...filter, by: 'id', limit: 1_000 })
  return items.map(({ id }) => id)
}

describe('R5 requeue', () => {
  test('of what was killed together: those of one score come as they were pushed', async () => {
    const board = await stage.queue()
    const payloads = ['v', 'w', 'x', 'y', 'z', 1, 2, 3]
    await board.push(...payloads.map((payload) => ({ id: 'a', payload, score: 1 })))
    await stage.lockstep.kill(board.queue, { ids: ['a'] })
    await stage.lockstep.requeue(board.queue, {})
    expect((await (await board.player()).take()).payloads).toEqual(payloads)
  })

  test('into a waiting job: the sets unite, it is due now and has never failed', async () => {
    const board = await stage.queue()
    await bury(board, { id: 'a', payload: 'v', score: 2 }, { id: 'a', payload: 'w', score: 9 })
    await board.push(
      { id: 'a', payload: 'v', score: 5 },
      { id: 'a', payload: 'w', score: 4 },
      { id: 'a', payload: 'x', score: 1 },
    )
    const player = await board.player()
    await player.fail([await player.take()], 3_600, 'broken')

    expect(await stage.lockstep.requeue(board.queue, {})).toEqual({ done: 2, total: 2 })
    const job = await board.job('a')
    expect(job).toMatchObject({ retry_count: -1, error: 'broken', claimed_by: null })
    expect(Math.abs(job.performIn - Date.now())).toBeLessThan(60_000)
    expect(await board.set('a')).toEqual(['x[1]', 'v[2]', 'w[4]'])
    expect(await deadIn(board)).toEqual([])
    expect((await player.take()).payloads).toEqual(['x', 'v', 'w'])
  })

  test('into a job in work: it comes with the next round, at once, and this round is not touched', async () => {
    const board = await stage.queue()
    await bury(board, { id: 'a', payload: 'v', score: 2 })
    await board.push({ id: 'a', payload: 'v', score: 5 })
    const player = await board.player()
    const round = await player.take()
    await board.push({ id: 'a', payload: 'later', score: 7, performIn: FUTURE })

    await stage.lockstep.requeue(board.queue, {})
    const job = await board.job('a')
    expect(job).toMatchObject({ claimed_by: player.processId, fence: round.fence })
    expect(Math.abs(job.nextPerformIn! - Date.now())).toBeLessThan(60_000)
    await player.complete(round)
    const next = await player.take()
    expect([next.payloads, next.scores, next.retryCount]).toEqual([['v', 'later'], [2, 7], -1])
  })

  test('where there is no job: one is made, due now', async () => {
    const board = await stage.queue({ shards: 7 })
    await bury(board, { id: 'a', payload: 'v', score: 2 })
    await stage.lockstep.requeue(board.queue, { ids: ['a'] })
    expect(await board.job('a')).toMatchObject({ retry_count: -1, lane: 0, crashes: 0 })
    expect(await board.set('a')).toEqual(['v[2]'])
  })

  test('into what a dead process left: it waits, its crash counted', async () => {
    const board = await stage.queue()
    await bury(board, { id: 'a', payload: 'v', score: 2 })
    await board.push({ id: 'a', payload: 'w', score: 5 })
    const dead = await board.player()
    await dead.take()
    await stage.expire(dead.processId)
    await stage.lockstep.requeue(board.queue, {})
    expect(await board.job('a')).toMatchObject({ claimed_by: null, crashes: 1, retry_count: -1 })
    expect((await (await board.player()).take()).payloads).toEqual(['v', 'w'])
  })

  test('brings back the error: the latest one, until the next success, where the job has none', async () => {
    const board = await stage.queue({ batchSize: 2 })
    const player = await board.player()
    for (const [payload, error] of [
      ['v', 'first'],
      ['w', 'second'],
    ] as const) {
      await board.push({ id: 'a', payload, score: 1 }, { id: 'b', payload, score: 1 })
      await player.fail((await player.claim()).rounds, null, error)
    }
    await stage.lockstep.requeue(board.queue, { ids: ['a'] })
    expect(await board.job('a')).toMatchObject({ error: 'second', retry_count: -1 })

    await board.push({ id: 'b', payload: 'x', score: 1 })
    const [a, b] = (await player.claim()).rounds
    expect([a, b]).toMatchObject([
      { id: 'a', error: 'second' },
      { id: 'b', error: null },
    ])
    await stage.lockstep.requeue(board.queue, { ids: ['b'] })
    expect(await board.job('b')).toMatchObject({ error: null })
    await player.fail([b!], 3_600, 'third')
    expect(await board.job('b')).toMatchObject({ error: 'third' })
    await board.push({ id: 'a', payload: 'y', performIn: FUTURE })
    await player.complete(a!)
    expect(await board.job('a')).toMatchObject({ error: null })
  })

  test('of some by filter, in chunks, leaves the others', async () => {
    const board = await stage.queue()
    await bury(board, ...numbered(25), { id: '0003', payload: 'more', score: 8 })
    const seen: Progress[] = []
    const filter = { id: { to: '0019' }, score: { to: 5 } }
    for await (const progress of stage.lockstep.requeue(board.queue, filter, { chunk: 8 }))
      seen.push(progress)
    expect(seen).toEqual([0, 8, 16, 20].map((done) => ({ done, total: 20 })))
    expect(await deadIn(board)).toEqual(['0003', '0020', '0021', '0022', '0023', '0024'])
    expect(await board.countJobs()).toBe(20)
  })

  test('of the same payload by two sessions: one moves it, and nothing is left over', async () => {
    const board = await stage.queue()
    for (let n = 0; n < 10; n += 1) {
      await bury(board, ...numbered(40))
      const [one, two] = await Promise.all([
        stage.lockstep.requeue(board.queue, {}, { chunk: 15 }),
        stage.lockstep.requeue(board.queue, {}, { chunk: 9 }),
      ])
      expect(one.done + two.done).toBe(40)
      expect([await board.countJobs(), await board.countPayloads()]).toEqual([40, 40])
      await stage.lockstep.delete(board.queue, {})
    }
  })

  test('of what somebody else requeued meanwhile changes nothing', async () => {
    const board = await stage.queue()
    await bury(board, { id: 'a', payload: 'v' })
    const other = await stage.transaction()
    const requeue = `SELECT lockstep.requeue(queue_id, ARRAY[job_id], ARRAY[digest]) FROM lockstep.morgue WHERE queue_id = ${board.queueId}`
    await other.query(requeue)
    const second = stage.lockstep.requeue(board.queue, {}).then((last) => last)
    await until(async () => {
      const rows = await stage.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`,
      )
      expect(rows).toHaveLength(1)
    })
    await other.query(
      `UPDATE lockstep.jobs SET retry_count = 3, perform_in = '2040-01-01' WHERE queue_id = $1`,
      [board.queueId],
    )
    await other.query('COMMIT')
    expect(await second).toEqual({ done: 0, total: 1 })
    expect(await board.job('a')).toMatchObject({
      retry_count: 3,
      performIn: new Date('2040-01-01').getTime(),
    })

    await stage.query('SELECT lockstep.requeue($1, ARRAY[$2], ARRAY[sha256($2::bytea)])', [
      board.queueId,
      'none',
    ])
    expect(await board.findJob('none')).toBeUndefined()
  })

  test('and deaths of the same payloads lock in one order: no deadlock, nothing lost', async () => {
    const board = await stage.queue({ batchSize: 20 })
    const all = numbered(20)
    await bury(board, ...all)
    const player = await board.player()
    let moved = 0
    const dying = async () => {
      for (let n = 0; n < 60; n += 1) {
        const { rounds } = await player.claim()
        const held = await player.fail(rounds.reverse(), null)
        const again = rounds.filter(({ id }) => held.some((one) => one.id === id && one.outcome === 'held'))
        if (again.length > 0) await player.release(...again)
      }
    }
    const rising = async () => {
      for (let n = 0; n < 30; n += 1) {
        const { done } = await stage.lockstep.requeue(board.queue, {}, { chunk: 20 })
        moved += done
      }
    }
    const burying = async () => {
      for (let n = 0; n < 30; n += 1) await stage.lockstep.kill(board.queue, {}, { chunk: 20 })
    }
    await Promise.all([dying(), rising(), rising(), burying()])
    expect(moved).toBeGreaterThan(0)
    expect((await deadIn(board)).length + (await board.countPayloads())).toBe(20)
  })
})

describe('R11 deleting from the morgue', () => {
  test('takes those that match, in chunks', async () => {
    const board = await stage.queue()
    await bury(board, ...numbered(25))
    await board.push({ id: '0001', payload: 'waiting', performIn: FUTURE })
    const seen: Progress[] = []
    const filter = { id: { from: '0005' } }
    for await (const progress of stage.lockstep.deleteDead(board.queue, filter, { chunk: 8 }))
      seen.push(progress)
    expect(seen).toEqual([0, 8, 16, 20].map((done) => ({ done, total: 20 })))
    expect(await deadIn(board)).toEqual(['0000', '0001', '0002', '0003', '0004'])
    expect(await board.countJobs()).toBe(1)
    expect(await stage.lockstep.deleteDead(board.queue, { digests: [] })).toEqual({ done: 0, total: 0 })
  })

  test('looks at the filter again on a row it has waited for', async () => {
    const board = await stage.queue()
    await bury(board, { id: 'a', payload: 'v', score: 5 })
    const other = await stage.transaction()
    const pid = await pidOf(other)
    await other.query('UPDATE lockstep.morgue SET score = 1 WHERE queue_id = $1', [board.queueId])
    const deleting = stage.lockstep.deleteDead(board.queue, { score: { from: 5 } }).then((last) => last)
    await until(async () => {
      const rows = await stage.query('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
        pid,
      ])
      expect(rows).toHaveLength(1)
    })
    await other.query('COMMIT')
    expect(await deleting).toEqual({ done: 0, total: 1 })
    expect(await deadIn(board)).toEqual(['a'])
  })

  test('and kills that meet the same payloads: no deadlock', async () => {
    const board = await stage.queue()
    const all = numbered(40)
    const killing = async () => {
      for (let n = 0; n < 15; n += 1) await bury(board, ...all)
    }
    const deleting = async () => {
      for (let n = 0; n < 30; n += 1) await stage.lockstep.deleteDead(board.queue, {})
    }
    await Promise.all([killing(), deleting(), deleting()])
    await stage.lockstep.deleteDead(board.queue, {})
    expect(await deadIn(board)).toEqual([])
  })

  test('refuses a misspelt filter at once', async () => {
    const board = await stage.queue()
    expect(() => stage.lockstep.deleteDead(board.queue, { digest: 'x' } as DeadFilter)).toThrow(
      'deleteDead: unknown option `digest`, did you mean `digests`?',
    )
    expect(() => stage.lockstep.requeue(board.queue, undefined as never)).toThrow(OptionError)
    expect(() => stage.lockstep.deleteDead(board.queue, { ids: undefined })).toThrow(
      'deleteDead: ids is undefined: give it a value, or leave the key out',
    )
  })
})

test('R5 requeue waits for a producer’s open transaction', async () => {
  const board = await stage.queue()
  await bury(board, { id: 'a', payload: 'v', score: 1 })
  await board.push({ id: 'a', payload: 'u', score: 0, performIn: FUTURE })
  const producer = await stage.transaction()
  await board.pushIn(producer, { id: 'a', payload: 'w', score: 2, performIn: FUTURE })
  const session = await stage.session()
  const pid = await pidOf(session)
  const requeue = session.query(
    'SELECT lockstep.requeue(queue_id, ARRAY[job_id], ARRAY[digest]) FROM lockstep.morgue WHERE queue_id = $1',
    [board.queueId],
  )
  await untilBlocked(stage, pid)
  await producer.query('COMMIT')
  await requeue
  expect(await board.set('a')).toEqual(['u[0]', 'v[1]', 'w[2]'])
})
