import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { attachSignals, Lockstep, type Queue, type Worker } from '../../src/index.ts'
import { Batcher } from '../../src/worker/settling/batcher.ts'
import { Recorder } from '../support/recorder.ts'
import { aborted, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('R15: stop takes nothing new and waits for the running handler', async () => {
  const gate = new Gate()
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around(() => gate.opened) })
  const worker = await env.work({ queues: [queue], shutdownTimeout: 60_000 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const completed = next(worker, 'completed')
  const stopped = worker.stop()
  await env.lockstep.enqueue(queue, { id: 'b' })
  gate.open()
  expect(await completed).toMatchObject({ ids: ['a'] })
  expect(await stopped).toBe(true)
  expect(recorder.ids).toEqual(['a'])
  expect(await env.job(queue, 'b')).toMatchObject({ claimed_by: null })
  expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([])
})

test('R15: what is stopped before it starts does not start', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ perform: recorder.around() })
  const worker = env.create({ queues: [queue] })
  expect(await worker.stop()).toBe(true)
  await env.lockstep.enqueue(queue, { id: 'a' })
  await worker.start()
  await worker.stop()
  expect(recorder.ids).toEqual([])
  expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([])
})

test('R15: after shutdownTimeout signals are aborted, and what has not ended is released unchanged', async () => {
  const recorder = new Recorder()
  const reasons: unknown[] = []
  const queue = env.queue({
    perform: recorder.around(async (_, { signal }) => {
      await aborted(signal)
      reasons.push(signal.reason)
      throw new Error('interrupted')
    }),
  })
  const performIn = new Date(Date.now() - 5_000)
  const worker = env.create({ queues: [queue], shutdownTimeout: 50 })
  const failed = vi.fn()
  worker.on('failed', failed)
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1, performIn })
  await worker.start()
  await started
  expect(await worker.stop()).toBe(true)
  expect(failed).not.toHaveBeenCalled()
  expect(String(reasons[0])).toMatch('the worker stops')
  expect(await env.job(queue, 'a')).toMatchObject({
    claimed_by: null,
    retry_count: -1,
    crashes: 0,
    error: null,
    perform_in: performIn,
  })
})

test('R15: a handler that returns after its signal was aborted has succeeded', async () => {
  const queue = env.queue({ perform: (_, { signal }) => aborted(signal) })
  const worker = await env.work({ queues: [queue], shutdownTimeout: 50 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const completed = next(worker, 'completed')
  expect(await worker.stop()).toBe(true)
  await completed
  expect(await env.job(queue, 'a')).toBeUndefined()
})

test('R15 P1: a handler that ignores its signal makes stop resolve to false, and keeps its job', async () => {
  const gate = new Gate()
  const recorder = new Recorder()
  const queue = env.queue({
    perform: recorder.around((batch) => (batch.has('a') ? gate.opened : undefined)),
  })
  const worker = await env.work({ queues: [queue], shutdownTimeout: 50, lease: 1_000 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const { processId } = worker
  const startedAt = performance.now()
  expect(await worker.stop()).toBe(false)
  expect(performance.now() - startedAt).toBeLessThan(4_500)

  const other = await env.work({ queues: [queue] })
  const rest = next(other, 'completed')
  await env.lockstep.enqueue(
    queue,
    Array.from({ length: 20 }, (_, id) => ({ id })),
  )
  await rest
  expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: processId })
  const completed = next(worker, 'completed')
  gate.open()
  expect(await completed).toMatchObject({ ids: ['a'] })
  expect(recorder.of('a')).toHaveLength(1)
  const rows = () => env.sql('SELECT FROM lockstep.processes WHERE process_id = $1', [processId])
  await eventually(async () => expect(await rows()).toEqual([]))
})

describe('R15: a worker that is told to be quiet while it starts', () => {
  test.each([
    ['by a call', (worker: Worker) => worker.quiet()],
    ['by SIGTSTP', signalled],
  ])('has no shard once it has started: another one serves them all (%s)', async (_, hush) => {
    const shards = 8
    const queue = env.queue({ shards, perform() {} })
    const other = await env.work({ queues: [queue], rebalanceInterval: 200 })
    const late = env.create({ queues: [queue], rebalanceInterval: 200 })
    const taken = vi.fn()
    late.on('started', taken)
    let held = shards
    other.on('rebalanced', (rebalanced) => {
      held = rebalanced.shards
    })
    const starting = late.start()
    const quiet = hush(late)
    await Promise.all([starting, quiet])
    await eventually(async () => {
      const processes = await env.lockstep.processes()
      expect(processes.find(({ processId }) => processId === late.processId)).toMatchObject({ quiet: true })
    })
    const ids = Array.from({ length: 40 }, (_, index) => `id-${index}`)
    await push(queue, ids)
    await eventually(async () => {
      expect(await env.jobs(queue)).toBe(0)
      expect(held).toBe(shards)
    })
    expect(taken).not.toHaveBeenCalled()
    expect(await late.stop()).toBe(true)
  })

  test('stays as it was where it has not been started, or could not', async () => {
    const worker = env.create({ queues: [env.queue({ perform() {} })] })
    await worker.quiet()
    await worker.start()
    const processes = await env.lockstep.processes()
    expect(processes.find(({ processId }) => processId === worker.processId)).toMatchObject({ quiet: false })
    const lockstep = new Lockstep({ connectionString: env.connectionString, schema: 'nowhere' })
    env.later(() => lockstep.close())
    const failing = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
    const starting = failing.start()
    const quiet = failing.quiet()
    await expect(starting).rejects.toMatchObject({ code: 'LOCKSTEP_SCHEMA_MISSING' })
    await quiet
  })
})

/** Like the terminal's signal. This process's own handler receives it. */
async function signalled(worker: Worker): Promise<void> {
  const detach = attachSignals(worker, env.logger)
  process.emit('SIGTSTP')
  detach()
}

test('R15: what was claimed ahead goes back at stop, its numbers unchanged, however quick the handlers are', {
  tags: 'slow',
}, async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 4, perform: recorder.around() })
  const count = 4_000
  await push(
    queue,
    Array.from({ length: count }, (_, index) => `id-${index}`),
  )
  while (recorder.runs.length < count) {
    const enough = recorder.runs.length + 500
    const worker = await env.work({ queues: [queue], slots: 5 })
    await eventually(() => expect(recorder.runs.length).toBeGreaterThan(Math.min(enough, count - 1)))
    expect(await worker.stop()).toBe(true)
    const rows = await env.sql(
      `SELECT DISTINCT claimed_by, retry_count, crashes FROM lockstep.jobs JOIN lockstep.queues q USING (queue_id)
       WHERE q.name = $1`,
      [queue.name],
    )
    if (recorder.runs.length < count)
      expect(rows).toEqual([{ claimed_by: null, retry_count: -1, crashes: 0 }])
  }
  expect(recorder.runs).toHaveLength(count)
})

test('R15: what a claim brings whose answer comes after the slots have stopped goes back, too', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around() })
  await push(
    queue,
    Array.from({ length: 3_000 }, (_, index) => `id-${index}`),
  )
  const worker = env.create({ queues: [queue], slots: 1 })
  const { claim } = Batcher.prototype
  const answers = vi.spyOn(Batcher.prototype, 'claim')
  env.later(() => answers.mockRestore())
  const stopped = new Promise<boolean>((resolve) => {
    answers.mockImplementation(async function (this: Batcher, ...asked) {
      const answer = await claim.apply(this, asked)
      if (recorder.runs.length < 500) return answer
      // The slot is in the middle of the prefetched jobs, and stops while this answer is on its way.
      resolve(worker.stop())
      await sleep(2_000)
      return answer
    })
  })
  await worker.start()
  expect(await stopped).toBe(true)
  const rows = await env.sql('SELECT DISTINCT claimed_by, crashes FROM lockstep.jobs')
  expect(rows).toEqual([{ claimed_by: null, crashes: 0 }])
})

test('R15: quiet takes nothing new, another worker takes over, and what runs goes on', async () => {
  const gate = new Gate()
  const queue = env.queue({ shards: 4, perform: (batch) => (batch.has('long') ? gate.opened : undefined) })
  const quiet = await env.work({ queues: [queue] })
  const started = next(quiet, 'started')
  await env.lockstep.enqueue(queue, { id: 'long' })
  await started
  await quiet.quiet()
  const taken: string[] = []
  quiet.on('started', ({ ids }) => taken.push(...ids))
  const other = await env.work({ queues: [queue] })
  const done = new Set<string>()
  other.on('completed', ({ ids }) => {
    for (const id of ids) done.add(id)
  })
  const { shard } = (await env.job(queue, 'long'))!
  const ids = Array.from({ length: 20 }, (_, index) => `id-${index}`)
  await push(queue, ids)
  await eventually(() => expect([...done].sort()).toEqual(ids.sort()))
  expect(taken).toEqual([])
  expect(quiet.report()).toMatchObject([{ queue: queue.name, shard, ids: ['long'] }])
  const completed = next(quiet, 'completed')
  gate.open()
  await completed
})

test('R15: stop ends a worker that never started, and may be asked twice', async () => {
  const queue = env.queue({ perform() {} })
  expect(await env.create({ queues: [queue] }).stop()).toBe(true)
  const worker = await env.work({ queues: [queue] })
  expect(await Promise.all([worker.stop(), worker.stop()])).toEqual([true, true])
  expect(await worker.stop()).toBe(true)
})

describe('R16: the timeout', () => {
  test('aborts the signal; it is a failure when the handler ends, and the job is claimed until then', async () => {
    const gate = new Gate()
    const seen: AbortSignal[] = []
    const recorder = new Recorder()
    const queue = env.queue({
      timeout: 60,
      retryIn: () => 3600,
      perform: recorder.around(async (_, { signal }) => {
        seen.push(signal)
        await gate.opened
      }),
    })
    const other = env.queue({ perform() {} })
    const worker = await env.work({ queues: [queue, other], slots: 2, lease: 1_000 })
    const started = next(worker, 'started')
    await env.lockstep.enqueue(queue, { id: 'a' })
    await started
    await eventually(() => expect(seen[0]?.aborted).toBe(true))
    // If the abort had an outcome, that would be stored before this.
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(other, { id: 'b' })
    await completed
    expect(seen[0]!.reason).toMatchObject({
      code: 'LOCKSTEP_TIMEOUT',
      message: expect.stringMatching('60 ms'),
    })
    expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: worker.processId, retry_count: -1 })

    const failed = next(worker, 'failed')
    gate.open()
    expect(await failed).toMatchObject({ id: 'a', retryCount: 0, error: { code: 'LOCKSTEP_TIMEOUT' } })
    expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: null, retry_count: 0 })
    expect(recorder.runs).toHaveLength(1)
  })

  test('a handler in time is left alone', async () => {
    const queue = env.queue({ timeout: 30_000, perform: (_, { signal }) => void signal.throwIfAborted() })
    const worker = await env.work({ queues: [queue] })
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    await completed
  })
})

async function push(queue: Queue, ids: readonly string[]): Promise<void> {
  await env.lockstep.enqueue(
    queue,
    ids.map((id) => ({ id })),
  )
}
