import type { Socket } from 'node:net'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { CrashLimitError, type Queue } from '../../src/index.ts'
import { terminate } from '../support/backends.ts'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import {
  eventually,
  Gate,
  next,
  type TransactionalPerform,
  useWorkers,
} from '../support/worker-environment.ts'

const env = useWorkers()

type Tx = Parameters<TransactionalPerform>[1]['tx']

const NEVER_AGAIN = { retryIn: () => 3_600 }
const INNOCENT = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']
const BATCH = [...INNOCENT, 'poison']

beforeAll(async () => {
  await env.sql('CREATE TABLE written (queue text, id text)')
})

/** Like a backend that is killed for its memory, or by a faulty extension. */
const die = (tx: Tx) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
const write = (tx: Tx, queue: Queue, ids: Iterable<string>) =>
  tx.query('INSERT INTO written SELECT $1, unnest($2::text[])', [queue.name, [...ids]])

async function written(queue: Queue): Promise<string[]> {
  const rows = await env.sql<{ id: string }>('SELECT id FROM written WHERE queue = $1 ORDER BY id', [
    queue.name,
  ])
  return rows.map(({ id }) => id)
}

async function dead(queue: Queue): Promise<string[]> {
  const rows = await env.sql<{ job_id: string }>(
    'SELECT m.job_id FROM lockstep.morgue m JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 ORDER BY 1',
    [queue.name],
  )
  return rows.map((row) => row.job_id)
}

function socketOf(tx: Tx): Socket {
  return (tx as Tx & { readonly connection: { readonly stream: Socket } }).connection.stream
}

const LOSSES: [string, (tx: Tx) => unknown][] = [
  ['and the handler swallows the error', (tx) => die(tx).catch(() => {})],
  ['and the handler throws', die],
  ['without a word, and the handler asks nothing more', (tx) => socketOf(tx).destroy()],
]

describe.each(LOSSES)('R10: the connection of a handler’s transaction is lost %s', (_, lose) => {
  test('the id at fault is taken alone, and fails after maxCrashes; the others of its batch are done', async () => {
    const recorder = new Recorder()
    const queue = env.transactional({
      ...NEVER_AGAIN,
      shards: 1,
      batchSize: BATCH.length,
      maxCrashes: 2,
      maxRetryCount: 1,
      perform: recorder.around(async (batch, { tx }) => {
        await write(tx, queue, batch.keys())
        if (batch.has('poison')) await lose(tx)
      }),
    })
    await env.lockstep.enqueue(
      queue,
      BATCH.map((id) => ({ id })),
    )
    const worker = env.create({ queues: [queue] })
    const failed = vi.fn()
    worker.on('failed', failed)
    await worker.start()
    await eventually(async () => {
      expect(await written(queue)).toEqual(INNOCENT)
      expect(failed).toHaveBeenCalledTimes(1)
    })
    expect(failed).toHaveBeenCalledWith(
      expect.objectContaining({ id: 'poison', retryCount: 0, error: expect.any(CrashLimitError) }),
    )
    expect(recorder.of('poison')).toHaveLength(2)
    expect(await env.job(queue, 'poison')).toMatchObject({ claimed_by: null, retry_count: 0, crashes: 0 })
    expect(env.warnings.map(({ fields }) => fields)).toContainEqual({
      error: expect.any(String),
      queue: queue.name,
      shard: 0,
      ids: BATCH,
    })
    // Its retries are used up like those of any other job.
    const died = next(worker, 'died')
    await env.lockstep.performNow(queue, {})
    expect(await died).toMatchObject({ id: 'poison' })
    expect(recorder.of('poison')).toHaveLength(4)
    expect(await dead(queue)).toEqual(['poison'])
    expect(await written(queue)).toEqual(INNOCENT)
  })
})

test('R10: what else the worker has in work goes on as the same process, and holds nothing up', async () => {
  const gate = new Gate()
  env.later(() => gate.open())
  const queue = env.transactional({
    ...NEVER_AGAIN,
    shards: 1,
    maxCrashes: 2,
    perform: async (batch, { tx }) => {
      await write(tx, queue, batch.keys())
      if (batch.has('long')) await gate.opened
      else if (batch.has('poison')) await die(tx).catch(() => {})
    },
  })
  const long = env.transactional({
    shards: 1,
    perform: async (batch, { tx }) => {
      await write(tx, queue, batch.keys())
      await gate.opened
    },
  })
  const worker = await env.work({ queues: [queue, long] })
  const { processId } = worker
  const started = next(worker, 'started')
  await env.lockstep.enqueue(long, { id: 'long' })
  await started
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'poison' })
  expect(await failed).toMatchObject({ id: 'poison', retryCount: 0 })
  expect(worker.processId).toBe(processId)
  const completed = next(worker, 'completed')
  gate.open()
  expect(await completed).toMatchObject({ ids: ['long'] })
  expect(await written(queue)).toEqual(['long'])
})

test('P3: where COMMIT had come through whose answer was lost, nothing is performed again', async () => {
  const recorder = new Recorder()
  const queue = env.transactional({
    perform: recorder.around(async (batch, { tx }) => {
      await write(tx, queue, batch.keys())
      if (batch.has('deaf')) loseAnswerToCommit(tx, () => env.jobs(queue))
    }),
  })
  const worker = await env.work({ queues: [queue] })
  const told = vi.fn()
  for (const event of ['failed', 'refused'] as const) worker.on(event, told)
  await env.lockstep.enqueue(queue, { id: 'deaf' })
  await eventually(() =>
    expect(env.warnings.map(({ message }) => message)).toContainEqual(expect.stringMatching('connection')),
  )
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'next' })
  await completed
  expect(await worker.stop()).toBe(true)
  expect(recorder.ids).toEqual(['deaf', 'next'])
  expect(await written(queue)).toEqual(['deaf', 'next'])
  expect(told).not.toHaveBeenCalled()
})

/** The worker sends COMMIT and hears nothing of it. When no job is left, the connection breaks. */
function loseAnswerToCommit(tx: Tx, jobs: () => Promise<number>): void {
  const { stream } = (tx as unknown as { connection: { stream: import('node:net').Socket } }).connection
  const { write: send } = stream
  stream.write = ((data: Buffer, ...rest: []) => {
    if (data.includes('COMMIT')) {
      stream.removeAllListeners('data')
      void eventually(async () => expect(await jobs()).toBe(0)).then(() => stream.destroy())
    }
    return send.call(stream, data, ...rest)
  }) as typeof stream.write
}

test.each([
  ['throw', (error: unknown) => Promise.reject(error)],
  ['swallow', () => {}],
])(
  'R6: an administrator ends all backends under load: handlers %s what they hear, and no payload dies',
  async (_, hear) => {
    const recorder = new Recorder()
    const queue = env.transactional({
      shards: 4,
      batchSize: 5,
      maxRetryCount: 0,
      perform: recorder.around(async (batch, { tx }) => {
        await write(tx, queue, batch.keys()).catch(hear)
        await tx.query('SELECT pg_sleep(0.01)').catch(hear)
      }),
    })
    const ids = Array.from({ length: 400 }, (_, index) => String(index).padStart(3, '0'))
    const worker = await env.work({ queues: [queue], slots: 4 })
    await env.lockstep.enqueue(
      queue,
      ids.map((id) => ({ id })),
    )
    for (let round = 1; round <= 2; round += 1) {
      const before = recorder.runs.length
      await eventually(() => expect(recorder.runs.length).toBeGreaterThan(before + 40))
      expect(await terminate(env, 'pool')).toBeGreaterThan(0)
    }
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(await worker.stop()).toBe(true)
    expect(await dead(queue)).toEqual([])
    expect(await written(queue)).toEqual(ids)
    expect(overlaps(recorder.runs)).toEqual([])
  },
)
