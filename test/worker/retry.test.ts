import { describe, expect, test } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('R6: a failure is retried after retryIn(retry_count) seconds, its error and count in the row', async () => {
  const asked: number[] = []
  const recorder = new Recorder()
  const queue = env.queue({
    retryIn: (retryCount) => {
      asked.push(retryCount)
      return retryCount < 1 ? 0.3 : 3600
    },
    perform: recorder.around(() => {
      throw new Error('not today')
    }),
  })
  const worker = await env.work({ queues: [queue] })
  const first = next(worker, 'failed')
  const second = next(worker, 'failed', ({ retryCount }) => retryCount === 1)
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect(await first).toMatchObject({ queue: queue.name, id: 'a', retryCount: 0, retryIn: 0.3 })
  expect(await second).toMatchObject({ retryCount: 1, retryIn: 3600 })
  expect(asked).toEqual([0, 1])
  const [one, two] = recorder.runs
  expect(Number(two!.begin - one!.end!) / 1e6).toBeGreaterThanOrEqual(299)

  const row = (await env.job(queue, 'a'))!
  expect(row).toMatchObject({ retry_count: 1, claimed_by: null, crashes: 0 })
  expect(row.error).toMatch(/^Error: not today\n +at /)
  expect(row.perform_ms).toBeGreaterThan(Date.now() + 3_500_000)
})

test('R7: a, b and c, always failing with maxRetryCount 3, die one after the other after 4, 4 and 4 runs', async () => {
  const runs: unknown[][] = []
  const queue = env.queue({
    maxRetryCount: 3,
    retryIn: () => 0,
    perform(batch) {
      runs.push([...batch.get('id')!])
      throw new Error(`run ${runs.length}`)
    },
  })
  const died: unknown[] = []
  const worker = env.create({ queues: [queue] })
  worker.on('died', ({ payload }) => died.push(payload))
  const jobs = ['a', 'b', 'c'].map((payload, score) => ({ id: 'id', payload, score }))
  await env.lockstep.enqueue(queue, jobs)
  await worker.start()
  await eventually(() => expect(died).toEqual(['a', 'b', 'c']))

  const times = (count: number, payloads: string[]) => Array.from({ length: count }, () => payloads)
  expect(runs).toEqual([...times(4, ['a', 'b', 'c']), ...times(4, ['b', 'c']), ...times(4, ['c'])])
  expect(await env.job(queue, 'id')).toBeUndefined()
  const dead = await morgue(queue)
  expect(dead.map(({ payload, score }) => [payload, score])).toEqual([
    ['a', 0],
    ['b', 1],
    ['c', 2],
  ])
  expect(dead.map(({ error }) => error.split('\n')[0])).toEqual([
    'Error: run 4',
    'Error: run 8',
    'Error: run 12',
  ])
})

test('R7: maxRetryCount 0 means one run', async () => {
  const recorder = new Recorder()
  const queue = env.queue({
    maxRetryCount: 0,
    perform: recorder.around(() => Promise.reject(new Error('no'))),
  })
  const worker = await env.work({ queues: [queue] })
  const died = next(worker, 'died')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  expect(await died).toMatchObject({ queue: queue.name, id: 'a', payload: 1 })
  expect(recorder.runs).toHaveLength(1)
  expect(await env.job(queue, 'a')).toBeUndefined()
})

describe('R6: whatever a handler throws is a failure, told in a bounded row', () => {
  const huge = 'x'.repeat(5 * 1024 * 1024)
  const throwers: [string, () => unknown, RegExp][] = [
    ['undefined', () => undefined, /^undefined was thrown$/],
    ['null', () => null, /^null was thrown$/],
    ['a string', () => 'a string', /^a string$/],
    ['a symbol', () => Symbol('odd'), /^Symbol\(odd\)$/],
    ['an object without a prototype', () => Object.create(null), /./],
    ['an object that can’t be shown', () => ({ toString: () => JSON.parse('') }), /./],
    ['an error with a message of 5 MB', () => new Error(huge), /^Error: x{7000,}…$/],
    [
      'an error with bytes Postgres can’t hold',
      () => new Error('\u0000 and \ud800'),
      /^Error: \ufffd and \ufffd/,
    ],
  ]

  test.each(throwers)('%s', async (_, thrown, row) => {
    const queue = env.queue({
      retryIn: () => 3600,
      perform() {
        throw thrown()
      },
    })
    const worker = await env.work({ queues: [queue] })
    const failed = next(worker, 'failed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    expect(await failed).toMatchObject({ id: 'a', retryCount: 0 })
    const { error } = (await env.job(queue, 'a'))!
    expect(error).toMatch(row)
    expect(error!.length).toBeLessThan(10_000)
  })
})

test.each([
  ['throws', () => JSON.parse('')],
  ['answers nonsense', () => Number.NaN],
])('R8: a retryIn that %s does not lose the failure: the default stands in', async (_, retryIn) => {
  const queue = env.queue({ retryIn, perform: () => Promise.reject(new Error('no')) })
  const worker = await env.work({ queues: [queue] })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  const { retryIn: seconds } = await failed
  expect(seconds).toBeGreaterThanOrEqual(15)
  expect(seconds).toBeLessThanOrEqual(15 + 29)
})

test('R3 R4 R7: what is pushed while the last run fails is not buried, even where it equals what dies', async () => {
  const batches: unknown[][] = []
  const queue = env.queue({
    maxRetryCount: 0,
    async perform(batch) {
      batches.push([...batch.get('id')!])
      if (batches.length > 1) return
      await env.lockstep.enqueue(queue, { id: 'id', payload: 'same', score: 7 })
      throw new Error('no')
    },
  })
  const worker = await env.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'id', payload: 'same', score: 1 })
  await completed
  expect(batches).toEqual([['same'], ['same']])
  expect(await morgue(queue)).toHaveLength(1)
})

function morgue(queue: Queue): Promise<{ payload: unknown; score: number; error: string }[]> {
  return env.sql(
    `SELECT m.payload, m.score, m.error FROM lockstep.morgue m JOIN lockstep.queues q USING (queue_id)
     WHERE q.name = $1 ORDER BY m.died_at`,
    [queue.name],
  )
}
