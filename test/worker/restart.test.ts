import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { inversions, lost, overlaps } from '../support/checker.ts'
import { Producer } from '../support/producer.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, next, WorkerEnvironment } from '../support/worker-environment.ts'

const ORDER = (payload: unknown) => payload as number

let server: EmbeddedServer
const env = new WorkerEnvironment()

beforeAll(async () => {
  server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
  await env.open({ connectionString: server.connectionString, drop: () => server.stop() })
})
afterEach((context) => env.clear(context))
afterAll(() => env.close())

test('P1 P2 P3: a database that crashes and comes back: nothing is lost, and both workers go on', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 6, batchSize: 3, perform: recorder.around(shortWork) })
  const workers = [
    await env.work({ queues: [queue], lease: 1_000 }),
    await env.work({ queues: [queue], lease: 10_000 }),
  ]
  for (const worker of workers) recorder.hear(worker)
  const first = new Producer(env, queue, 30)
  await eventually(() => expect(recorder.runs.length).toBeGreaterThan(100))
  await first.end()
  await env.lockstep.enqueue(queue, many())
  await server.restart({ shutdown: 'immediate' })

  const second = new Producer(env, queue, 30, 1_000_000)
  await Promise.all(workers.map((worker) => next(worker, 'completed')))
  await second.end()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(overlaps(recorder.runs)).toEqual([])
  expect(lost(recorder.runs, first.pushed)).toEqual([])
  expect(lost(recorder.runs, second.pushed)).toEqual([])
  expect(lost(recorder.runs, new Map(many().map(({ id }) => [id, [1]])))).toEqual([])
  expect(inversions(recorder.runs, ORDER)).toEqual([])
})

test('R6 R10: a server that goes down under load fails nobody: handlers’ transactions are performed again, and stored once', async () => {
  await env.sql('CREATE TABLE written (id text)')
  const recorder = new Recorder()
  const queue = env.transactional({
    shards: 6,
    batchSize: 3,
    maxRetryCount: 0,
    perform: recorder.around(async (batch, { tx }) => {
      await tx.query('INSERT INTO written SELECT unnest($1::text[])', [[...batch.keys()]])
      await shortWork()
    }),
  })
  await env.lockstep.enqueue(queue, many())
  const worker = await env.work({ queues: [queue], slots: 4 })
  for (const shutdown of ['fast', 'immediate'] as const) {
    const before = recorder.runs.length
    await eventually(() => expect(recorder.runs.length).toBeGreaterThan(before + 30))
    await server.restart({ shutdown })
  }
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(await worker.stop()).toBe(true)
  expect(await env.sql('SELECT FROM lockstep.morgue')).toEqual([])
  const written = await env.sql<{ id: string }>('SELECT id FROM written ORDER BY id')
  expect(written.map(({ id }) => id)).toEqual(
    many()
      .map(({ id }) => id)
      .sort(),
  )
  expect(overlaps(recorder.runs)).toEqual([])
})

test('R15: a worker whose database is away stops all the same', async () => {
  const queue = env.queue({ shards: 8, perform: shortWork })
  const idle = await env.work({ queues: [env.queue({ shards: 24, perform() {} })] })
  const busy = await env.work({ queues: [queue], lease: 1_000 })
  const completed = next(busy, 'completed')
  await env.lockstep.enqueue(queue, many())
  await completed
  // Its lease ends, so it must register again.
  const leaseLost = next(busy, 'leaseLost')
  await server.restart({
    shutdown: 'immediate',
    async whileDown() {
      await leaseLost
      const startedAt = performance.now()
      await Promise.all([busy.stop(), idle.stop()])
      expect(performance.now() - startedAt).toBeLessThan(12_000)
    },
  })
})

function many() {
  return Array.from({ length: 300 }, (_, index) => ({ id: `many-${index}`, payload: 1 }))
}

function shortWork(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * 10))
}
