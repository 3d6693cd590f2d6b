import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** ms; long enough for a worker to start and come to rest. */
const LEASE = 4_000
const POLL = 200

// No one tells a resting worker that another process's lease ends, and the cheap look passes over claimed jobs.
test('P3: what a dead process left is found by a worker at rest, once the lease has ended', {
  tags: 'slow',
}, async () => {
  const queue = env.queue({ shards: 1, perform() {} })
  await env.lockstep.enqueue(queue, { id: 'left' })
  expect(await claimAsAnother(queue.name)).toContain('left')

  const worker = env.create({ queues: [queue], poll: POLL })
  const rescued = next(worker, 'rescued')
  const completed = next(worker, 'completed')
  await worker.start()
  await env.idle(queue)
  expect(await rescued).toMatchObject({ id: 'left', crashes: 1 })
  await completed
})

test('P3: what commits behind the cursor is found by a worker at rest', async () => {
  const queue = env.queue({ shards: 1, perform() {} })
  await env.lockstep.enqueue(queue, { id: 'first' })
  const producer = await env.session()
  await producer.query('BEGIN')
  // No worker waits yet, so this commit will wake none.
  await producer.query('SELECT lockstep.enqueue($1, $2)', [queue.name, 'late'])
  await env.lockstep.enqueue(queue, { id: 'later' })
  const worker = env.create({ queues: [queue], poll: POLL })
  const later = next(worker, 'completed', ({ ids }) => ids.includes('later'))
  await worker.start()
  await later
  await env.idle(queue)
  // A worker that comes to rest looks at everything once. This test is not about that look.
  await sleep(2 * POLL)
  const late = next(worker, 'completed', ({ ids }) => ids.includes('late'))
  await producer.query('COMMIT')
  await late
})

/** Claims as a process that is never heard of again. */
async function claimAsAnother(queue: string): Promise<(string | null)[]> {
  const [process] = await env.sql<{ id: number }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('there', 1, '0', 1, $1, $2, clock_timestamp()) RETURNING process_id AS id`,
    [[queue], LEASE],
  )
  const claimed = await env.sql<{ id: string | null }>(
    `SELECT c.id FROM lockstep.queues q, lockstep.claim(
       $2, ARRAY[q.queue_id], '{0}', '{0}', '{1}', '{NULL}', '{1000}', '{NULL}', ARRAY[''], 1000
     ) c WHERE q.name = $1`,
    [queue, process!.id],
  )
  return claimed.map(({ id }) => id)
}
