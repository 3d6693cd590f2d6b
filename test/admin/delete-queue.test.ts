import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { defineQueue, OptionError, type Progress } from '../../src/index.ts'
import { addCounts } from '../../src/store/counter.ts'
import { deleteQueueRow, lockQueues } from '../../src/store/queue-contents.ts'
import { type Board, openStage, pidOf, type Stage, untilBlocked } from '../support/rounds.ts'

const ids = (count: number, prefix = '') => Array.from({ length: count }, (_, n) => ({ id: `${prefix}${n}` }))

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterEach(() => stage.endSessions())
afterAll(() => stage?.close())

const rowOf = ({ queueId }: Board) =>
  stage.query('SELECT FROM lockstep.queues WHERE queue_id = $1', [queueId])

/** Rows with the queue's number in any table. */
async function left({ queueId }: Board): Promise<number> {
  let left = 0
  for (const table of ['queues', 'jobs', 'payloads', 'morgue', 'counters', 'minute_counters'])
    left += (await stage.query(`SELECT FROM lockstep.${table} WHERE queue_id = $1`, [queueId])).length
  return left
}

async function bury(board: Board, count: number): Promise<void> {
  await board.push(...ids(count, 'dead '))
  await stage.lockstep.kill(board.queue, { ids: ids(count, 'dead ').map(({ id }) => id) })
}

describe('deleting a queue', () => {
  test('that is empty takes its row and its counts', async () => {
    const board = await stage.queue()
    await addCounts(stage.database, [{ queueId: board.queueId, processed: 1, failed: 1 }])
    expect(await stage.lockstep.deleteQueue(board.queue)).toEqual({ done: 0, total: 0 })
    expect(await left(board)).toBe(0)
    await expect(stage.lockstep.deleteQueue(board.queue)).rejects.toMatchObject({
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
    })
  })

  test('that holds jobs or dead payloads is refused, with the counts', async () => {
    const board = await stage.queue()
    await bury(board, 2)
    await board.push(...ids(3))
    await expect(stage.lockstep.deleteQueue(board.queue.name)).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_NOT_EMPTY',
      message: expect.stringMatching(/3 waiting jobs and 2 dead payloads.*withJobs/),
    })
    expect(await left(board)).toBe(1 + 2 * 3 + 2)
  })

  test('with its jobs deletes those in chunks, with progress, and no other queue’s', async () => {
    const [board, other] = [await stage.queue({ shards: 3 }), await stage.queue()]
    for (const one of [board, other]) {
      await bury(one, 15)
      await one.push(...ids(40))
    }
    const before = await left(other)
    const seen: Progress[] = []
    for await (const step of stage.lockstep.deleteQueue(board.queue, { withJobs: true, chunk: 10 }))
      seen.push(step)
    expect(seen[0]).toEqual({ done: 0, total: 55 })
    expect(seen[2]).toEqual({ done: 10, total: 55 })
    expect(seen.at(-1)).toEqual({ done: 55, total: 55 })
    expect(await left(board)).toBe(0)
    expect(await left(other)).toBe(before)
  })

  test('with a few jobs takes one step', async () => {
    const board = await stage.queue()
    await board.push(...ids(3))
    expect(await stage.lockstep.deleteQueue(board.queue, { withJobs: true })).toEqual({ done: 3, total: 3 })
    expect(await left(board)).toBe(0)
  })

  test('R11 of which a job is in work is refused, whatever is asked for, until its process is gone', async () => {
    const board = await stage.queue()
    await board.push(...ids(2))
    const player = await board.player()
    await player.take()
    await expect(stage.lockstep.deleteQueue(board.queue, { withJobs: true })).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_IN_USE',
      message: expect.stringContaining('1 jobs in work and 0 processes that serve it;'),
    })
    expect(await board.countJobs()).toBe(2)
    await stage.query('DELETE FROM lockstep.processes WHERE process_id = $1', [player.processId])
    expect(await stage.lockstep.deleteQueue(board.queue, { withJobs: true })).toEqual({ done: 2, total: 2 })
  })

  test('that a live process serves is refused by its name', async () => {
    const queue = defineQueue('served', { perform() {} })
    const worker = stage.lockstep.createWorker({ queues: [queue] })
    await worker.start()
    await expect(stage.lockstep.deleteQueue('served', { withJobs: true })).rejects.toMatchObject({
      code: 'LOCKSTEP_QUEUE_IN_USE',
      message: expect.stringMatching(new RegExp(`1 processes that serve it: \\S+ ${process.pid};`)),
    })
    await worker.stop()
    await stage.lockstep.deleteQueue('served')
  })

  test('P3 P4 waits for a transaction that has pushed into it, while pushes into others go on', async () => {
    const [board, other] = [await stage.queue(), await stage.queue()]
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'a' })
    const deleting = stage.lockstep.deleteQueue(board.queue).then((last) => last)
    const refused = expect(deleting).rejects.toMatchObject({ code: 'LOCKSTEP_QUEUE_NOT_EMPTY' })
    // Each waits for a try of ours at most.
    for (let n = 0; n < 5; n += 1) await other.push({ id: n })
    await producer.query('COMMIT')
    await refused
    expect(await board.set('a')).toHaveLength(1)
    expect(await other.countJobs()).toBe(5)
  })

  test('counts what committed while it waited', async () => {
    const board = await stage.queue()
    await board.push({ id: 'x' })
    const producer = await stage.transaction()
    await board.pushIn(producer, { id: 'y' })
    const deleter = stage.lockstep.deleteQueue(board.queue, { withJobs: true })
    const steps = deleter[Symbol.asyncIterator]()
    expect((await steps.next()).value).toEqual({ done: 0, total: 1 })
    const last = steps.next()
    await producer.query('COMMIT')
    expect((await last).value).toEqual({ done: 2, total: 2 })
    expect((await steps.next()).done).toBe(true)
    expect(await left(board)).toBe(0)
  })

  test.each(['enqueue', 'enqueue_many'])(
    'P3 P4 lets no push in that comes meanwhile, through %s: the next one makes the queue again',
    async (name) => {
      const board = await stage.queue()
      const producer = await stage.session()
      const push = (id: string) =>
        producer.query(
          name === 'enqueue'
            ? `SELECT lockstep.enqueue('${board.queue.name}', '${id}')`
            : `SELECT lockstep.enqueue_many('${board.queue.name}', '{${id}}', '{1}', '{1}', '{null}', '{0}')`,
        )
      // From now on the session has the plans.
      await push('early')
      const deleter = await stage.transaction()
      await lockQueues(stage.database, deleter)
      const pid = await pidOf(producer)
      const pushing = push('late').catch((error) => error)
      await untilBlocked(stage, pid)
      await deleteQueueRow(stage.database, board.queueId, deleter)
      await deleter.query('COMMIT')
      expect(await pushing).toMatchObject({ code: 'LK001' })
      expect(await left(board)).toBe(0)
      await board.push({ id: 'later' })
      expect(await stage.lockstep.find(board.queue)).toMatchObject({ items: [{ id: 'later' }] })
    },
  )

  test('takes what is pushed while it deletes, or leaves the queue made again', async () => {
    const board = await stage.queue({ shards: 4 })
    await board.push(...ids(200))
    let pushing = true
    const producing = (async () => {
      for (let n = 0; pushing; n += 1) await board.push({ id: `more ${n}` }).catch(() => {})
    })()
    await stage.lockstep.deleteQueue(board.queue, { withJobs: true, chunk: 20 })
    expect(await left(board)).toBe(0)
    pushing = false
    await producing
    expect(await left(board)).toBe(0)
    expect(await rowOf(board)).toEqual([])
  })

  test('can be stopped', async () => {
    const board = await stage.queue()
    await board.push(...ids(50))
    const stop = new AbortController()
    const deleting = (async () => {
      for await (const { done } of stage.lockstep.deleteQueue(board.queue, {
        withJobs: true,
        chunk: 10,
        signal: stop.signal,
      }))
        if (done >= 20) stop.abort(new Error('enough'))
    })()
    await expect(deleting).rejects.toThrow('enough')
    expect(await board.countJobs()).toBe(30)
  })

  test('takes no other options', () => {
    expect(() => stage.lockstep.deleteQueue('q', { withJob: true } as never)).toThrow(OptionError)
  })
})
