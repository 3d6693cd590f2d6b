import { expect, test } from 'vitest'
import { defineQueue, type Queue } from '../../src/index.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const other = defineQueue('beside it', { shards: 1, perform() {} })

/** Does what a person who knows SQL might do. In one transaction: otherwise the worker may make the queue between the two. */
async function remake(queue: Queue, shards: number): Promise<void> {
  const session = await env.session()
  await session.query('BEGIN')
  await session.query('DELETE FROM lockstep.queues WHERE name = $1', [queue.name])
  await session.query('SELECT lockstep.create_queue($1, $2)', [queue.name, shards])
  await session.query('COMMIT')
}

/** How many shards of the queue with this number are locked. */
const locked = async (queueId: number) => {
  const [row] = await env.sql<{ count: number }>(
    `SELECT count(*)::int FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 'lockstep.jobs'::regclass
       AND l.objid::bigint / 16384 = $1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    [queueId],
  )
  return row!.count
}
const idOf = async (queue: Queue) => {
  const [row] = await env.sql<{ id: number }>('SELECT queue_id AS id FROM lockstep.queues WHERE name = $1', [
    queue.name,
  ])
  return row!.id
}

test('P8: a queue whose row was deleted and made again is served under its new number, wake-ups included', async () => {
  const done: string[] = []
  const queue = env.queue({ shards: 4, perform: (batch) => void done.push(...batch.keys()) })
  // The shards of another queue stay: without any, the flag would be lowered for that reason.
  await env.work({ queues: [queue, other], rebalanceInterval: 50, poll: 60_000 })
  await env.idle(queue)
  const was = await idOf(queue)
  expect(await locked(was)).toBe(4)

  await remake(queue, 3)
  // Producers that use the new number see that a worker waits.
  await env.idle(queue)
  await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
  await eventually(() => expect(done.toSorted()).toEqual(['a', 'b']))
  expect(await locked(was)).toBe(0)
  expect(await locked(await idOf(queue))).toBe(3)
  expect(env.warnings).toMatchObject([{ fields: { queue: queue.name, was }, message: /made again/ }])
  await env.idle(queue)
  const flags = await env.sql(
    `SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 'lockstep.queues'::regclass AND objid::bigint = $1
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    [was],
  )
  expect(flags).toEqual([])
})

test('a queue whose row was deleted is made again by those who serve it, and by one of them alone', async () => {
  const done: string[] = []
  const queue = env.queue({ shards: 2, perform: (batch) => void done.push(...batch.keys()) })
  for (const _ of [1, 2]) await env.work({ queues: [queue], rebalanceInterval: 50 })
  await env.sql('DELETE FROM lockstep.queues WHERE name = $1', [queue.name])
  await eventually(async () =>
    expect(await env.sql('SELECT shards FROM lockstep.queues WHERE name = $1', [queue.name])).toEqual([
      { shards: 2 },
    ]),
  )
  await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
  await eventually(() => expect(done.toSorted()).toEqual(['a', 'b']))
})

test('P3: what is in work when its queue’s row is made again ends as ever', async () => {
  const gate = new Gate()
  const queue = env.queue({ shards: 1, perform: () => gate.opened })
  const worker = await env.work({ queues: [queue, other], rebalanceInterval: 50 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  const was = await idOf(queue)
  await remake(queue, 1)
  await eventually(async () => expect(await locked(await idOf(queue))).toBe(1))
  await eventually(async () => expect(await locked(was)).toBe(0))
  const completed = next(worker, 'completed')
  gate.open()
  await completed
  expect(await env.sql('SELECT FROM lockstep.jobs WHERE queue_id = $1', [was])).toEqual([])
})
