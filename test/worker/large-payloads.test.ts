import { describe, expect, test } from 'vitest'
import { CrashLimitError, type WorkerEvents } from '../../src/index.ts'
import { MOST_BYTES } from '../../src/store/exchange.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const PAST = 1_536_323_288_000
/** A payload that does not come with the claim. */
const LARGE = 'x'.repeat(MOST_BYTES + 1)

const env = useWorkers()

/** Counts the loads of one id, and makes them do something else. */
async function whenLoaded(id: string, what: string): Promise<() => Promise<number>> {
  const [row] = await env.sql<{ text: string }>(
    `SELECT pg_get_functiondef(oid) AS text FROM pg_proc
     WHERE proname = 'load_payloads' AND pronamespace = 'lockstep'::regnamespace`,
  )
  await env.sql('CREATE SEQUENCE loads MINVALUE 0 START 0')
  const changed = row!.text.replace(
    /BEGIN\n/,
    `BEGIN IF _id = '${id}' THEN PERFORM nextval('loads'); ${what}; END IF;\n`,
  )
  await env.sql(changed)
  env.later(async () => {
    await env.sql(row!.text)
    await env.sql('DROP SEQUENCE loads')
  })
  return async () => {
    const [{ count }] = (await env.sql<{ count: number }>(
      'SELECT (CASE WHEN is_called THEN last_value + 1 ELSE 0 END)::int AS count FROM loads',
    )) as [{ count: number }]
    return count
  }
}

describe('R9 rounds that are loaded', () => {
  test('begin alone, in their turn, and what is behind them follows', async () => {
    const batches: string[][] = []
    const queue = env.queue({
      shards: 1,
      batchSize: 4,
      perform: (batch) =>
        void batches.push([...batch].map(([id, [payload]]) => `${id} ${String(payload).length}`)),
    })
    await env.lockstep.enqueue(
      queue,
      ['a', 'b', 'c', 'd', 'e'].map((id, index) => ({
        id,
        payload: id === 'b' ? LARGE : id,
        performIn: PAST + index,
      })),
    )
    await env.work({ queues: [queue], slots: 1 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(batches[0]).toEqual(['a 1'])
    expect(batches[1]).toEqual([`b ${LARGE.length}`])
    // If loading takes long, these are released meanwhile, and one that was not claimed yet may come first.
    expect(batches.slice(2).flat().toSorted()).toEqual(['c 1', 'd 1', 'e 1'])
  })

  test('maxBytes bounds what a handler gets of an id, also in a transaction', async () => {
    const rounds: unknown[][] = []
    const queue = env.transactional({
      shards: 1,
      maxBytes: 8,
      perform: (batch) => void rounds.push([...batch.get('a')!]),
    })
    await env.lockstep.enqueue(
      queue,
      ['aa', 'bb', 'cc', 'dd', 'ee'].map((payload, score) => ({ id: 'a', payload, score })),
    )
    await env.work({ queues: [queue] })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(rounds).toEqual([['aa', 'bb'], ['cc', 'dd'], ['ee']])
  })

  test('are released with their numbers unchanged where the worker stops before', async () => {
    const queue = env.queue({
      shards: 1,
      batchSize: 2,
      perform: () => {
        stopping ??= worker.stop()
      },
    })
    let stopping: Promise<boolean> | undefined
    const worker = env.create({ queues: [queue], slots: 1 })
    // A worker that is told to stop while it starts would start first.
    await worker.start()
    await env.lockstep.enqueue(queue, [
      { id: 'a', performIn: PAST },
      { id: 'b', payload: LARGE, performIn: PAST + 1 },
    ])
    await eventually(() => expect(stopping).toBeDefined())
    await stopping
    expect(await env.job(queue, 'a')).toBeUndefined()
    expect(await env.job(queue, 'b')).toMatchObject({
      claimed_by: null,
      crashes: 0,
      retry_count: -1,
      perform_ms: PAST + 1,
    })
  })
})

describe('R10 a load whose answer is lost', () => {
  test('is a crash to whoever claims the job next, so that it is not asked for without an end; others go on', async () => {
    const loads = await whenLoaded('lost', 'PERFORM pg_terminate_backend(pg_backend_pid())')
    const done: string[] = []
    const queue = env.queue({
      shards: 1,
      maxCrashes: 3,
      maxRetryCount: 0,
      perform: (batch) => void done.push(...batch.keys()),
    })
    const worker = env.create({ queues: [queue], slots: 1, poll: 50 })
    const rescued: WorkerEvents['rescued'][0][] = []
    worker.on('rescued', (event) => rescued.push(event))
    const failed = next(worker, 'failed')
    await env.lockstep.enqueue(queue, [
      { id: 'lost', payload: LARGE, performIn: PAST },
      { id: 'other', performIn: PAST + 1 },
    ])
    await worker.start()
    expect(await failed).toMatchObject({ id: 'lost', error: expect.any(CrashLimitError) })
    expect(rescued.map(({ id, crashes }) => `${id} ${crashes}`)).toEqual(['lost 1', 'lost 2', 'lost 3'])
    expect(await loads()).toBe(3)
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(done).toEqual(['other'])
  })

  test('does not count where it was the only one: the next brings the round', async () => {
    await whenLoaded(
      'once',
      `IF (SELECT last_value = 0 FROM loads) THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF`,
    )
    const crashes: number[] = []
    const queue = env.queue({
      shards: 1,
      perform: (_batch, { jobs }) => void crashes.push(jobs.get('once')!.crashes),
    })
    const worker = await env.work({ queues: [queue], slots: 1, poll: 50 })
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'once', payload: LARGE })
    await completed
    expect(crashes).toEqual([1])
  })
})

test('R6: a load that is refused for any other reason is a failure', async () => {
  await whenLoaded('refused', `RAISE EXCEPTION 'not today'`)
  const queue = env.queue({ shards: 1, maxRetryCount: 1, perform: () => {} })
  const worker = env.create({ queues: [queue], slots: 1, poll: 50 })
  const failures: string[] = []
  worker.on('failed', ({ error, retryIn }) => failures.push(`${(error as Error).message} ${retryIn}`))
  const died = next(worker, 'died')
  await env.lockstep.enqueue(queue, { id: 'refused', payload: LARGE })
  await worker.start()
  await died
  expect(failures).toEqual(['not today 0.02', 'not today null'])
})

test('P6: a claim that was lost before its payloads are loaded begins nothing, and is told', async () => {
  await whenLoaded('gone', `UPDATE lockstep.jobs SET claimed_by = -1 WHERE id = 'gone'`)
  let performed = false
  const queue = env.queue({
    shards: 1,
    perform: () => {
      performed = true
    },
  })
  const worker = env.create({ queues: [queue], slots: 1, poll: 50 })
  const refused = next(worker, 'refused')
  await env.lockstep.enqueue(queue, { id: 'gone', payload: LARGE })
  await worker.start()
  expect(await refused).toMatchObject({ id: 'gone' })
  await worker.stop()
  expect(performed).toBe(false)
})
