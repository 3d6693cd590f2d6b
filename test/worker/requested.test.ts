import { expect, test } from 'vitest'
import type { WorkerOptions } from '../../src/index.ts'
import { terminate } from '../support/backends.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const A_MINUTE = 60_000

/** A worker whose handler runs until the gate is opened. */
async function occupied(options: Partial<WorkerOptions> = {}) {
  const gate = new Gate()
  env.later(() => gate.open())
  const queue = env.queue({ perform: () => gate.opened })
  const worker = await env.work({ queues: [queue], shutdownTimeout: A_MINUTE, ...options })
  const begun = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await begun
  return { queue, worker, gate }
}

test('R15 a worker that is asked to stop from elsewhere stops at once, and lets what runs end', async () => {
  const { queue, worker, gate } = await occupied({ rebalanceInterval: A_MINUTE })
  const requested = next(worker, 'requested')
  await env.lockstep.stop(worker.processId)
  expect(await requested).toEqual({ request: 'stop' })
  expect(worker.health()).toMatchObject({ state: 'stopping', live: true, ready: false })
  await eventually(async () =>
    expect(await env.lockstep.processes()).toMatchObject([{ request: 'stop', quiet: true }]),
  )
  await env.lockstep.enqueue(queue, { id: 'b' })
  gate.open()
  expect(await worker.stop()).toBe(true)
  expect(await env.job(queue, 'a')).toBeUndefined()
  expect(await env.job(queue, 'b')).toMatchObject({ claimed_by: null })
  expect(await env.lockstep.processes()).toEqual([])
})

test('R15 a worker that is asked to be quiet leaves its shards to others, once, and can be stopped later', async () => {
  const queue = env.queue({ shards: 4, perform() {} })
  const options = { queues: [queue], rebalanceInterval: 100 }
  const one = await env.work(options)
  const other = env.create(options)
  const half = next(other, 'rebalanced', ({ shards }) => shards === 2)
  await other.start()
  await half
  let asked = 0
  one.on('requested', () => {
    asked += 1
  })
  const all = next(other, 'rebalanced', ({ shards }) => shards === 4)
  await env.lockstep.quiet(one.processId)
  await all
  await eventually(() => expect(one.health()).toMatchObject({ state: 'quiet', live: true, ready: false }))
  // It goes on comparing, and finds the request each time.
  await env.lockstep.quiet(one.processId)
  await eventually(async () =>
    expect(await env.lockstep.processes()).toMatchObject([
      { processId: one.processId, request: 'quiet', quiet: true },
      { processId: other.processId, request: null, quiet: false },
    ]),
  )
  await env.lockstep.stop(one.processId)
  await eventually(() => expect(one.health().state).toBe('stopped'))
  expect(asked).toBe(2)
})

test('R15 a request that is not announced is found at the next comparison', async () => {
  const worker = await env.work({ queues: [env.queue({ perform() {} })], rebalanceInterval: 100 })
  const requested = next(worker, 'requested')
  await env.sql(`UPDATE lockstep.processes SET request = 'stop'`)
  await requested
  expect(await worker.stop()).toBe(true)
})

test('R15 whoever sees a request first tells the others, whose comparisons are far apart', async () => {
  const queue = env.queue({ perform() {} })
  const far = await env.work({ queues: [queue], rebalanceInterval: A_MINUTE })
  const near = await env.work({ queues: [queue], rebalanceInterval: 100 })
  await eventually(async () => expect(await env.lockstep.processes()).toHaveLength(2))
  const requested = next(far, 'requested')
  await env.sql(`UPDATE lockstep.processes SET request = 'stop' WHERE process_id = $1`, [far.processId])
  await requested
  expect(near.health().state).toBe('running')
})

test('R15 a request reaches a process that has registered anew meanwhile', async () => {
  const { worker, gate } = await occupied()
  const former = worker.processId
  // The session of the lease ends; its row stays as long as the handler runs.
  expect(await terminate(env, 'lease')).toBe(1)
  await eventually(() => expect(worker.processId).toBeGreaterThan(former))
  const requested = next(worker, 'requested')
  await env.lockstep.stop(former)
  await requested
  gate.open()
  expect(await worker.stop()).toBe(true)
})

test('to stop is not taken back', async () => {
  const { worker } = await occupied()
  await env.lockstep.stop(worker.processId)
  await env.lockstep.quiet(worker.processId)
  expect(await env.lockstep.processes()).toMatchObject([{ request: 'stop' }])
})

test('whether a process that is asked seems dead is told', async () => {
  const [dead] = await env.sql<{ process_id: number }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('gone', 1, '1', 1, '{}', 10000, clock_timestamp() - interval '1 minute') RETURNING process_id`,
  )
  expect(await env.lockstep.quiet(dead!.process_id)).toBe(false)
  expect(await env.lockstep.stop(dead!.process_id, { by: 'me' })).toBe(false)
  expect(await env.lockstep.processes()).toMatchObject([{ overdue: true, request: 'stop' }])
  await env.sql('DELETE FROM lockstep.processes')
  const { processId } = await env.work({ queues: [env.queue({ perform() {} })] })
  expect(await env.lockstep.quiet(processId)).toBe(true)
})

test('a process that does not exist, or can’t, is an error that says so', async () => {
  await expect(env.lockstep.stop(1_999_999)).rejects.toMatchObject({
    code: 'LOCKSTEP_UNKNOWN_PROCESS',
    message: 'process 1999999 does not exist: no worker process is registered',
  })
  const { processId } = await env.work({ queues: [env.queue({ perform() {} })] })
  await expect(env.lockstep.quiet(1_999_999)).rejects.toThrow(`does not exist: there are ${processId}`)
  for (const wrong of [0, 1.5, '7', 2 ** 31] as number[])
    await expect(env.lockstep.stop(wrong)).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_OPTION' })
})
