import { expect, test } from 'vitest'
import { type JobInfo, Lockstep, type Logger } from '../../src/index.ts'
import { silentLogger } from '../../src/logger.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const PAST = Date.now() - 100_000

const env = useWorkers()

test('a logger that throws costs neither job nor stop', async () => {
  const broken = () => {
    throw new Error('disk full')
  }
  const logger = { debug: broken, info: broken, warn: broken, error: broken }
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  const formatError = broken
  const queue = env.queue({
    maxRetryCount: 1,
    perform: (_, context) => {
      context.logger.warn({}, 'nobody hears')
      throw new Error('no')
    },
  })
  const worker = env.create({ queues: [queue], formatError }, lockstep)
  await worker.start()
  const died = next(worker, 'died')
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect(await died).toMatchObject({ error: new Error('no') })
  expect(await worker.stop()).toBe(true)
})

test('callbacks whose promises reject end nothing: a logger, and a retryIn, which the default stands in for', async () => {
  const later = () => Promise.reject(new Error('later'))
  const logger = { debug: later, info: later, warn: later, error: later } as unknown as Logger
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  const queue = env.queue({
    retryIn: later as unknown as () => number,
    perform: (_, context) => {
      context.logger.warn({}, 'nobody hears')
      throw new Error('no')
    },
  })
  const worker = env.create({ queues: [queue] }, lockstep)
  await worker.start()
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect((await failed).retryIn).toBeGreaterThanOrEqual(15)
})

test('R9: a batch has up to batchSize ids of one shard in perform_in order, ties by id', async () => {
  const batches: string[][] = []
  const queue = env.queue({
    shards: 1,
    batchSize: 3,
    perform: (batch) => void batches.push([...batch.keys()]),
  })
  const due = { d: 1, B: 2, a: 2, ä: 2, b: 2, c: 3, e: 0 }
  const jobs = Object.entries(due).map(([id, after]) => ({ id, performIn: PAST + after }))
  await env.lockstep.enqueue(queue, jobs)
  await env.work({ queues: [queue] })
  await eventually(() => expect(batches.flat()).toHaveLength(jobs.length))
  expect(batches).toEqual([['e', 'd', 'B'], ['a', 'b', 'ä'], ['c']])
})

test('R9: each id comes with all its payloads by score, equal ones in push order', async () => {
  const batches: [string, readonly unknown[]][] = []
  const queue = env.queue({ shards: 1, batchSize: 9, perform: (batch) => void batches.push(...batch) })
  for (const payload of ['z', 'y', 'x']) await env.lockstep.enqueue(queue, { id: 'a', payload, score: 5 })
  await env.lockstep.enqueue(queue, { id: 'a', payload: { first: true }, score: -1.5 })
  await env.lockstep.enqueue(queue, { id: 'a', payload: null, score: new Date(9) })
  await env.work({ queues: [queue] })
  await eventually(() => expect(batches).toHaveLength(1))
  expect(batches[0]).toEqual(['a', [{ first: true }, 'z', 'y', 'x', null]])
})

test('R9: context.fail fails one of a batch and spares the rest', async () => {
  const recorder = new Recorder()
  const queue = env.queue({
    shards: 1,
    batchSize: 3,
    retryIn: () => 3600,
    perform: recorder.around((_, context) => context.fail('b', new Error('b alone'))),
  })
  await env.lockstep.enqueue(
    queue,
    ['a', 'b', 'c'].map((id) => ({ id })),
  )
  const worker = env.create({ queues: [queue] })
  const failed = next(worker, 'failed')
  const completed = next(worker, 'completed')
  await worker.start()
  expect(await completed).toMatchObject({ ids: ['a', 'c'], queue: queue.name, shard: 0 })
  expect(await failed).toMatchObject({ id: 'b', error: new Error('b alone') })
  expect(await env.job(queue, 'b')).toMatchObject({
    retry_count: 0,
    error: expect.stringMatching('b alone'),
  })
  expect(await env.jobs(queue)).toBe(1)
  expect(recorder.runs).toHaveLength(3)
})

test('R9: context.fail of an id that the batch does not have is the handler’s mistake', async () => {
  const queue = env.queue({ retryIn: () => 3600, perform: (_, context) => context.fail('other', 1) })
  const worker = await env.work({ queues: [queue] })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect(await failed).toMatchObject({ id: 'a', error: { message: expect.stringMatching('no id "other"') } })
})

test('R9: context.fail of a batch that has ended is told, and changes nothing', async () => {
  const told: object[] = []
  const logger = { ...silentLogger, warn: (fields: object) => void told.push(fields) }
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  let fail: (() => void) | undefined
  const queue = env.queue({
    perform(_, context) {
      fail = () => context.fail('a', new Error('too late'))
    },
  })
  const worker = env.create({ queues: [queue] }, lockstep)
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await worker.start()
  await completed
  fail!()
  expect(told).toEqual([{ queue: queue.name, id: 'a', error: expect.stringMatching('too late') }])
  expect(await env.jobs(queue)).toBe(0)
})

test('R9: a throw fails every id of the batch, and keeps what context.fail has said of one', async () => {
  const queue = env.queue({
    shards: 1,
    batchSize: 3,
    retryIn: () => 3600,
    perform(_, context) {
      context.fail('b', 'b itself')
      throw new Error('all')
    },
  })
  const failed = new Map<string, unknown>()
  const worker = env.create({ queues: [queue] })
  worker.on('failed', ({ id, error }) => failed.set(id, error))
  await env.lockstep.enqueue(
    queue,
    ['a', 'b', 'c'].map((id) => ({ id })),
  )
  await worker.start()
  await eventually(() => expect(failed.size).toBe(3))
  expect(failed).toEqual(
    new Map<string, unknown>([
      ['a', new Error('all')],
      ['b', 'b itself'],
      ['c', new Error('all')],
    ]),
  )
})

test('R9: maxPayloads bounds a round to the lowest scores; the rest follows at once', async () => {
  const rounds: unknown[][] = []
  const queue = env.queue({ maxPayloads: 2, perform: (batch) => void rounds.push([...batch.get('a')!]) })
  await env.lockstep.enqueue(
    queue,
    [5, 3, 1, 4, 2].map((payload) => ({ id: 'a', payload, score: payload })),
  )
  const startedAt = performance.now()
  // A look would find the rest only after an hour.
  await env.work({ queues: [queue], poll: 3_600_000 })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(rounds).toEqual([[1, 2], [3, 4], [5]])
  expect(performance.now() - startedAt).toBeLessThan(5_000)
})

test('R9 P6: a handler is told of scores, retryCount, performIn, error, tenant, crashes and the fence, which grows', async () => {
  const told: JobInfo[] = []
  const performIn = new Date(PAST)
  const queue = env.queue({
    retryIn: () => 0,
    perform(_, { jobs }) {
      told.push(jobs.get('a')!)
      if (told.length === 1) throw new Error('first time')
    },
  })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'x', score: 2.5, performIn, tenant: 'acme' })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'y', score: 1, performIn: PAST - 10 })
  const worker = env.create({ queues: [queue] })
  const completed = next(worker, 'completed')
  await worker.start()
  await completed
  const fence = expect.any(Number)
  expect(told[0]).toEqual({
    retryCount: -1,
    performIn,
    scores: [1, 2.5],
    headers: [null, null],
    error: null,
    tenant: 'acme',
    crashes: 0,
    fence,
  })
  expect(told[1]!.fence).toBeGreaterThan(told[0]!.fence)
  expect(told[1]).toMatchObject({
    retryCount: 0,
    error: expect.stringMatching('first time'),
    scores: [1, 2.5],
  })
  expect(told[1]!.performIn.getTime()).toBeGreaterThan(PAST)
})

test('a copy of the context has all that it has, and its parts work apart from it', async () => {
  const copies: object[] = []
  const queue = env.queue({
    maxRetryCount: 0,
    perform(_batch, context) {
      copies.push({ ...context })
      const { fail, jobs } = context
      fail([...jobs.keys()][0]!, new Error('by a part'))
    },
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  const worker = env.create({ queues: [queue] })
  const failed = next(worker, 'failed')
  await worker.start()
  expect(await failed).toMatchObject({ id: 'a', error: new Error('by a part') })
  expect(copies).toMatchObject([{ signal: { aborted: false }, jobs: new Map([['a', { retryCount: -1 }]]) }])
  expect(Object.keys(copies[0]!)).toEqual(expect.arrayContaining(['fail', 'jobs', 'logger', 'signal', 'tx']))
})

test('P5: a payload pushed while its id is in work is handed over next, even an equal one', async () => {
  const gate = new Gate()
  const recorder = new Recorder()
  const queue = env.queue({ perform: recorder.around(() => recorder.runs.length > 1 || gate.opened) })
  const worker = await env.work({ queues: [queue], slots: 3, poll: 3_600_000 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'same', score: 1 })
  await started
  await env.lockstep.enqueue(queue, [
    { id: 'a', payload: 'same', score: 2 },
    { id: 'a', payload: 'other', score: 0 },
  ])
  expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: worker.processId })
  expect(recorder.runs).toHaveLength(1)
  gate.open()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(recorder.runs.map(({ payloads }) => payloads)).toEqual([['same'], ['other', 'same']])
  expect(recorder.runs[1]!.begin).toBeGreaterThan(recorder.runs[0]!.end!)
})

test('P3: a job whose payloads are missing has failed, and says why; with new ones it succeeds', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around(() => {}) })
  await env.lockstep.enqueue(queue, { id: 'empty', payload: 'lost' })
  await env.sql(`UPDATE lockstep.jobs SET payload = NULL WHERE id = 'empty'`)
  const worker = env.create({ queues: [queue] })
  const failed = next(worker, 'failed')
  await worker.start()
  expect(await failed).toMatchObject({ id: 'empty', error: { code: 'LOCKSTEP_EMPTY_JOB' } })
  expect(recorder.runs).toHaveLength(0)
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'empty', payload: 'new' })
  await completed
  expect(recorder.runs).toHaveLength(1)
})

test('R10: all that a process had in work when it died is performed again at once, each alone', async () => {
  const batches: string[][] = []
  const queue = env.queue({
    shards: 1,
    batchSize: 10,
    perform: (batch) => void batches.push([...batch.keys()]),
  })
  const ids = Array.from({ length: 10 }, (_, index) => `id-${index}`)
  await env.lockstep.enqueue(
    queue,
    ids.map((id, index) => ({ id, performIn: new Date(index) })),
  )
  await env.sql(
    `WITH dead AS MATERIALIZED (SELECT nextval('lockstep.processes_process_id_seq') AS process_id)
     UPDATE lockstep.jobs SET claimed_by = process_id, claimed_at = now() FROM dead`,
  )
  await env.work({ queues: [queue], slots: 1, poll: 60_000 })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(batches).toEqual(ids.map((id) => [id]))
})
