import { expect, test } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { WAITING_AT_ONCE } from '../../src/worker/settling/completer.ts'
import { Recorder } from '../support/recorder.ts'
import { pidOf } from '../support/rounds.ts'
import { eventually, useWorkshop } from '../support/workshop.ts'

/** ms: less than a call may take before its connection counts as broken. */
const SOON = 8_000

const shop = useWorkshop()

const jobs = (name: string) => Array.from({ length: 30 }, (_, index) => ({ id: `${name}-${index}` }))

async function deadOf(queue: Queue): Promise<string[]> {
  const rows = await shop.sql<{ id: string }>('SELECT id FROM lockstep.dead WHERE queue = $1', [queue.name])
  return rows.map(({ id }) => id)
}

test('P7: deaths whose rows in the morgue are locked hold up nothing else, and are stored when they are free', async () => {
  const recorder = new Recorder()
  const perform = recorder.around((batch) => {
    for (const id of batch.keys()) if (!id.startsWith('fine')) throw new Error('no')
  })
  const dying = shop.queue({ maxRetryCount: 0, perform })
  const other = shop.queue({ retryIn: () => 3600, perform })
  await shop.lockstep.enqueue(dying, jobs('held'))
  await shop.work({ queues: [dying, other], slots: 5 })
  await eventually(async () => expect(await deadOf(dying)).toHaveLength(30))

  const holder = await shop.session()
  const pid = await pidOf(holder)
  await holder.query('BEGIN')
  await holder.query('SELECT FROM lockstep.morgue FOR UPDATE')
  await shop.lockstep.enqueue(dying, jobs('held'))
  await eventually(() => expect(recorder.runs).toHaveLength(60), SOON)
  await shop.lockstep.enqueue(dying, jobs('free'))
  await shop.lockstep.enqueue(other, [...jobs('fine'), ...jobs('failing')])
  await eventually(async () => expect(await deadOf(dying)).toHaveLength(60), SOON)
  await eventually(async () => {
    const failed = await shop.sql('SELECT id FROM lockstep.waiting WHERE queue = $1 AND retry_count = 0', [
      other.name,
    ])
    expect([failed.length, await shop.jobs(other)]).toEqual([30, 30])
  }, SOON)
  const waiting = await shop.sql('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [pid])
  expect(waiting.length).toBeLessThanOrEqual(WAITING_AT_ONCE)
  expect(await shop.jobs(dying)).toBe(30)

  await holder.query('COMMIT')
  await eventually(async () => expect(await shop.jobs(dying)).toBe(0))
  for (const { id } of jobs('held')) expect(recorder.of(id)).toHaveLength(2)
})

test('P3: deaths that a worker could not store before it stopped are performed again by the next', async () => {
  const recorder = new Recorder()
  const perform = recorder.around(() => {
    throw new Error('no')
  })
  const queue = shop.queue({ maxRetryCount: 0, perform })
  await shop.lockstep.enqueue(queue, jobs('held'))
  const worker = await shop.work({ queues: [queue], slots: 5 })
  await eventually(async () => expect(await deadOf(queue)).toHaveLength(30))

  const holder = await shop.session()
  await holder.query('BEGIN')
  await holder.query('SELECT FROM lockstep.morgue FOR UPDATE')
  await shop.lockstep.enqueue(queue, jobs('held'))
  await eventually(() => expect(recorder.runs).toHaveLength(60), SOON)
  expect(await worker.stop()).toBe(true)
  expect(await shop.jobs(queue)).toBe(30)

  await holder.query('COMMIT')
  await shop.work({ queues: [queue], slots: 5 })
  await eventually(async () => expect(await shop.jobs(queue)).toBe(0))
  for (const { id } of jobs('held')) expect(recorder.of(id)).toHaveLength(3)
  expect(await deadOf(queue)).toHaveLength(30)
})
