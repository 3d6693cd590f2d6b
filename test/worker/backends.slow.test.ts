import { describe, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { type Backend, terminate } from '../support/backends.ts'
import { inversions, lost, overlaps, repeats } from '../support/checker.ts'
import { Producer } from '../support/producer.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const LEASE = 1_500

const env = useWorkers()

const cases: [string, Backend[]][] = [
  ['the pool’s', ['pool']],
  ['the lock', ['lock']],
  ['the lease', ['lease']],
  ['the listen', ['listen']],
  ['all', ['pool', 'lock', 'lease', 'listen']],
]

describe.each(cases)('%s connections are ended, again and again', (_, kinds) => {
  test('P1 P2 P3: nothing is lost, nothing runs twice, and the worker goes on', async () => {
    const recorder = new Recorder()
    const queue = env.queue({ batchSize: 3, perform: recorder.around(() => shortWork()) })
    const workers = [await env.work({ queues: [queue], lease: LEASE }), await env.work({ queues: [queue] })]
    const producer = new Producer(env, queue, 40)
    for (let round = 1; round <= 3; round += 1) {
      const before = recorder.runs.length
      await eventually(() => expect(recorder.runs.length).toBeGreaterThan(before + 10))
      await eventually(async () => expect(await terminate(env, ...kinds)).toBeGreaterThan(0))
    }
    await Promise.all(workers.map((worker) => next(worker, 'completed')))
    await producer.end()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(overlaps(recorder.runs)).toEqual([])
    expect(lost(recorder.runs, producer.pushed)).toEqual([])
    expect(repeats(recorder.runs)).toEqual([])
    expect(inversions(recorder.runs, (payload) => payload as number)).toEqual([])
  })
})

test('P3: a handler’s transaction whose connection breaks is performed again, and stored once', async () => {
  await env.sql('CREATE TABLE written (id text)')
  const recorder = new Recorder()
  const gate = new Gate()
  const queue = env.transactional({
    perform: recorder.around(async (batch, { tx }) => {
      await tx.query('INSERT INTO written SELECT unnest($1::text[])', [[...batch.keys()]])
      if (recorder.runs.length === 1) await gate.opened
    }),
  })
  const worker = await env.work({ queues: [queue] })
  const failed: unknown[] = []
  worker.on('failed', (event) => failed.push(event))
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  await eventually(async () => {
    const [ended] = await env.sql<{ ended: boolean }>(
      `SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
       WHERE state = 'idle in transaction' AND query LIKE 'INSERT INTO written%' AND datname = current_database()`,
    )
    expect(ended).toEqual({ ended: true })
  })
  const completed = next(worker, 'completed')
  gate.open()
  await completed
  expect(await env.sql('SELECT id FROM written')).toEqual([{ id: 'a' }])
  expect(recorder.runs).toHaveLength(2)
  expect(failed).toEqual([])
})

function shortWork(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20))
}

test('connections that broke for the worker alone: what the server still keeps for them is ended, and work goes on', async () => {
  const { network, lockstep } = await env.distant()
  const queue = env.queue({ shards: 3, perform() {} })
  const worker = env.create({ queues: [queue] }, lockstep)
  await worker.start()
  await env.idle(queue)
  const completed = next(worker, 'completed')
  network.abandon()
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
})

test('P6: an outcome that is refused after the lease was lost is told so, though an earlier try may have stored it', async () => {
  const { network, lockstep } = await env.distant()
  const gate = new Gate()
  const queue = env.queue({ perform: () => gate.opened })
  const cutOff = env.create({ queues: [queue], lease: LEASE }, lockstep)
  const completed: unknown[] = []
  cutOff.on('completed', (event) => completed.push(event))
  await cutOff.start()
  const started = next(cutOff, 'started')
  const refused = next(cutOff, 'refused')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const lost = next(cutOff, 'leaseLost')
  network.silence()
  // Its completion is under way when the lease ends.
  gate.open()
  await lost
  const other = env.create({ queues: [defineQueue(queue.name, { perform() {} })] })
  await Promise.all([next(other, 'completed'), other.start()])
  network.cut()
  network.restore()
  expect(await refused).toMatchObject({ id: 'a' })
  expect(completed).toEqual([])
})

test('P8: a worker starts where its wake-up connection is never answered, and hears when it can', async () => {
  const { network, lockstep } = await env.distant()
  network.deafen()
  const queue = env.queue({ perform() {} })
  const worker = env.create({ queues: [queue], poll: 60_000 }, lockstep)
  const found = next(worker, 'completed', () => true, 30_000)
  await env.lockstep.enqueue(queue, { id: 'a' })
  await worker.start()
  await found
  expect(env.warnings.map(({ message }) => message)).toContain('no wake-up connection: polling')
  await env.idle(queue)
  network.restore()
  const told = next(worker, 'completed', () => true, 30_000)
  await env.lockstep.enqueue(queue, { id: 'b' })
  await told
}, 60_000)
