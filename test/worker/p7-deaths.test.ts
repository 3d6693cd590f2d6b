import { expect, test } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { WAITING_AT_ONCE } from '../../src/worker/settling/completer.ts'
import { Recorder } from '../support/recorder.ts'
import { pidOf } from '../support/store-environment.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

/** ms: less than a call may take before its connection counts as broken. */
const SOON = 8_000

const env = useWorkers()

const jobs = (name: string) => Array.from({ length: 30 }, (_, index) => ({ id: `${name}-${index}` }))

async function deadOf(queue: Queue): Promise<string[]> {
  const rows = await env.sql<{ id: string }>('SELECT id FROM lockstep.dead WHERE queue = $1', [queue.name])
  return rows.map(({ id }) => id)
}

test('P7: deaths whose rows in the morgue are locked hold up nothing else, and are stored when they are free', async () => {
  const recorder = new Recorder()
  const perform = recorder.around((batch) => {
    for (const id of batch.keys()) if (!id.startsWith('fine')) throw new Error('no')
  })
  const dying = env.queue({ maxRetryCount: 0, perform })
  const other = env.queue({ retryIn: () => 3600, perform })
  await env.lockstep.enqueue(dying, jobs('held'))
  await env.work({ queues: [dying, other], slots: 5 })
  await eventually(async () => expect(await deadOf(dying)).toHaveLength(30))

  const holder = await env.session()
  const pid = await pidOf(holder)
  await holder.query('BEGIN')
  await holder.query('SELECT FROM lockstep.morgue FOR UPDATE')
  await env.lockstep.enqueue(dying, jobs('held'))
  await eventually(() => expect(recorder.runs).toHaveLength(60), SOON)
  await env.lockstep.enqueue(dying, jobs('free'))
  await env.lockstep.enqueue(other, [...jobs('fine'), ...jobs('failing')])
  await eventually(async () => expect(await deadOf(dying)).toHaveLength(60), SOON)
  await eventually(async () => {
    const failed = await env.sql('SELECT id FROM lockstep.waiting WHERE queue = $1 AND retry_count = 0', [
      other.name,
    ])
    expect([failed.length, await env.jobs(other)]).toEqual([30, 30])
  }, SOON)
  const waiting = await env.sql('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [pid])
  expect(waiting.length).toBeLessThanOrEqual(WAITING_AT_ONCE)
  expect(await env.jobs(dying)).toBe(30)

  await holder.query('COMMIT')
  await eventually(async () => expect(await env.jobs(dying)).toBe(0))
  for (const { id } of jobs('held')) expect(recorder.of(id)).toHaveLength(2)
})

test('P3: deaths that a worker could not store before it stopped are performed again by the next', {
  tags: 'slow',
}, async () => {
  const recorder = new Recorder()
  const perform = recorder.around(() => {
    throw new Error('no')
  })
  const queue = env.queue({ maxRetryCount: 0, perform })
  await env.lockstep.enqueue(queue, jobs('held'))
  const worker = await env.work({ queues: [queue], slots: 5 })
  await eventually(async () => expect(await deadOf(queue)).toHaveLength(30))

  const holder = await env.session()
  await holder.query('BEGIN')
  await holder.query('SELECT FROM lockstep.morgue FOR UPDATE')
  await env.lockstep.enqueue(queue, jobs('held'))
  await eventually(() => expect(recorder.runs).toHaveLength(60), SOON)
  expect(await worker.stop()).toBe(true)
  expect(await env.jobs(queue)).toBe(30)

  await holder.query('COMMIT')
  await env.work({ queues: [queue], slots: 5 })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  for (const { id } of jobs('held')) expect(recorder.of(id)).toHaveLength(3)
  expect(await deadOf(queue)).toHaveLength(30)
})
