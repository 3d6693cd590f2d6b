import { setTimeout } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { OptionError, type Progress } from '../../src/index.ts'
import { countStrays } from '../../src/store/queue.ts'
import { type Board, openStage, type Stage, until } from '../support/rounds.ts'
import { next, useWorkshop } from '../support/workshop.ts'

const FUTURE = Date.parse('2040-01-01T00:00:00Z')

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
afterEach(() => stage.endSessions())
afterAll(() => stage?.close())

const shop = useWorkshop()

describe('R11 pause and resume', () => {
  test('keep the time of the first pause, and stop claims', async () => {
    const board = await stage.queue()
    await board.push({ id: 'a' })
    const player = await board.player()
    await stage.lockstep.pause(board.queue)
    const [first] = (await stage.lockstep.stats()).queues
    expect(first!.pausedAt).toBeInstanceOf(Date)
    await stage.lockstep.pause(board.queue.name)
    expect((await stage.lockstep.stats()).queues[0]!.pausedAt).toEqual(first!.pausedAt)
    expect((await player.claim()).rounds).toEqual([])
    await stage.lockstep.resume(board.queue)
    expect((await stage.lockstep.stats()).queues[0]!.pausedAt).toBeNull()
    await player.take()
    await expect(stage.lockstep.resume('nowhere')).rejects.toMatchObject({ code: 'LOCKSTEP_UNKNOWN_QUEUE' })
  })

  test('are seen by a running worker: what runs goes on, nothing starts, and then at once', async () => {
    const done: string[] = []
    const queue = shop.queue({ shards: 2, perform: (batch) => void done.push(...batch.keys()) })
    // Neither a poll nor a rebalance interval comes in time: the worker has to be told.
    await shop.lockstep.enqueue(queue, { id: 'before' })
    const worker = await shop.work({ queues: [queue], poll: 60_000, rebalanceInterval: 60_000 })
    await until(() => expect(done).toEqual(['before']))

    await shop.lockstep.pause(queue)
    await shop.lockstep.enqueue(queue, [{ id: 'meanwhile' }, { id: 'too' }])
    await setTimeout(300)
    expect(done).toEqual(['before'])

    const started = next(worker, 'started')
    await shop.lockstep.resume(queue)
    await started
    await until(() => expect(done.toSorted()).toEqual(['before', 'meanwhile', 'too']))
  })
})

/** The shards in use. */
async function shardsOf(board: Board): Promise<number[]> {
  const rows = await stage.query<{ shard: number }>(
    'SELECT j.shard FROM lockstep.jobs j WHERE j.queue_id = $1 ORDER BY j.shard',
    [board.queueId],
  )
  return [...new Set(rows.map(({ shard }) => shard))]
}

const ids = (count: number, prefix = '') =>
  Array.from({ length: count }, (_, n) => ({ id: `${prefix}${n}`, performIn: FUTURE }))

describe('R11 reshard', () => {
  test('up moves nothing, and new ids use all shards', async () => {
    const board = await stage.queue({ shards: 2 })
    await board.push(...ids(30))
    const seen: Progress[] = []
    for await (const progress of stage.lockstep.reshard(board.queue, 8)) seen.push(progress)
    expect(seen).toEqual([{ done: 0, total: 0 }])
    expect(await shardsOf(board)).toEqual([0, 1])
    await board.push(...ids(100, 'new'))
    expect(await shardsOf(board)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  })

  test('down moves the jobs of the shards that go, in chunks, rows in work among them', async () => {
    const board = await stage.queue({ shards: 10 })
    await board.push(...ids(100))
    await stage.query(
      'UPDATE lockstep.jobs SET perform_in = clock_timestamp() WHERE queue_id = $1 AND shard = 7',
      [board.queueId],
    )
    const player = await board.player()
    const { rounds } = await player.claim({ shard: 7, batchSize: 100 })
    expect(rounds.length).toBeGreaterThan(3)
    const strays = (
      await stage.query(`SELECT FROM lockstep.jobs WHERE queue_id = $1 AND shard >= 3`, [board.queueId])
    ).length

    const seen: Progress[] = []
    for await (const progress of stage.lockstep.reshard(board.queue, 3, { chunk: 20 })) seen.push(progress)
    expect(seen[0]).toEqual({ done: 0, total: strays })
    expect(seen[1]).toEqual({ done: 20, total: strays })
    expect(seen.at(-1)).toEqual({ done: strays, total: strays })
    expect(await shardsOf(board)).toEqual([0, 1, 2])

    expect(await player.complete(...rounds)).toEqual([])
    expect(await board.countJobs()).toBe(100 - rounds.length)
    expect(await stage.lockstep.reshard(board.queue, 3)).toEqual({ done: 0, total: 0 })
  })

  test('waits for rows that a producer holds, moving all others', async () => {
    const board = await stage.queue({ shards: 10 })
    await board.push(...ids(60))
    const [{ id }] = (await stage.query(`SELECT id FROM lockstep.jobs WHERE queue_id = $1 AND shard = 9`, [
      board.queueId,
    ])) as [{ id: string }]
    const producer = await stage.transaction()
    await board.pushIn(producer, { id, payload: 'more' })
    const seen: Progress[] = []
    const running = (async () => {
      for await (const progress of stage.lockstep.reshard(board.queue, 1)) seen.push(progress)
    })()
    await until(async () => expect(await countStrays(stage.database, board.queueId)).toBe(1))
    await setTimeout(200)
    // It asks ever more rarely, not all the time.
    expect(seen.length).toBeLessThan(10)
    expect(seen.at(-1)!.done).toBe(seen[0]!.total - 1)
    await producer.query('COMMIT')
    await running
    expect(seen.at(-1)!.done).toBe(seen[0]!.total)
    expect(await shardsOf(board)).toEqual([0])
  })

  test('can be stopped while it waits, and finished by calling it again', async () => {
    const board = await stage.queue({ shards: 10 })
    await board.push(...ids(60))
    const producer = await stage.transaction()
    await producer.query('SELECT FROM lockstep.jobs WHERE queue_id = $1 FOR UPDATE', [board.queueId])
    const stop = new AbortController()
    const running = stage.lockstep.reshard(board.queue, 2, { signal: stop.signal }).then((last) => last)
    setTimeout(100).then(() => stop.abort(new Error('enough')))
    await expect(running).rejects.toThrow('enough')
    await producer.query('ROLLBACK')
    const left = await countStrays(stage.database, board.queueId)
    expect(left).toBeGreaterThan(0)
    expect(await stage.lockstep.reshard(board.queue, 2)).toEqual({ done: left, total: left })
  })

  test('leaves what a producer commits later with the old number to the workers', async () => {
    const performed: string[] = []
    const queue = shop.queue({ shards: 8, perform: (batch) => void performed.push(...batch.keys()) })
    const names = Array.from({ length: 20 }, (_, n) => `id ${n}`)
    const producer = await shop.session()
    await shop.lockstep.enqueue(queue, { id: 'first' })
    await producer.query('BEGIN')
    await shop.lockstep.enqueue(
      queue,
      names.map((id) => ({ id })),
      { tx: producer },
    )
    await shop.lockstep.reshard(queue, 1)
    await shop.work({ queues: [queue], rebalanceInterval: 100 })
    await until(() => expect(performed).toEqual(['first']))
    await producer.query('COMMIT')
    await until(() => expect(performed.toSorted()).toEqual(['first', ...names].toSorted()))
  })

  test('and workers that move strays as well end together', async () => {
    const queue = shop.queue({ shards: 50, perform: () => {} })
    await shop.lockstep.enqueue(
      queue,
      Array.from({ length: 2_000 }, (_, n) => ({ id: n, performIn: FUTURE })),
    )
    await shop.work({ queues: [queue], rebalanceInterval: 50 })
    const { done, total } = await shop.lockstep.reshard(queue, 1, { chunk: 100 })
    expect(done).toBe(total)
    const rows = await shop.sql(
      'SELECT FROM lockstep.jobs JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 AND shard > 0',
      [queue.name],
    )
    expect(rows).toEqual([])
  })

  test.each([0, 16_385, 1.5, '3', undefined])('%j shards are refused', async (shards) => {
    const board = await stage.queue()
    expect(() => stage.lockstep.reshard(board.queue, shards as number)).toThrow(OptionError)
  })
})
