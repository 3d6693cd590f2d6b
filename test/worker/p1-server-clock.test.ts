import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const LEASE = 1_000
const REBALANCE_INTERVAL = 100

/** Simulates a jump of the server's clock for comparisons with it: the ends of all leases jump the other way. */
async function jump(by: string, until: Promise<unknown>): Promise<void> {
  let over = false
  until.then(() => {
    over = true
  })
  while (!over) {
    await env.sql(`UPDATE lockstep.processes SET expires_at = clock_timestamp() - $1::interval`, [by])
  }
}

test.each(['1 hour', '-1 hour'])(
  'P1: where the server’s clock jumps by %s, nobody loses a lease, and no handler gets company',
  async (by) => {
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 1,
      perform: recorder.around(() => new Promise((end) => setTimeout(end, 2.5 * LEASE))),
    })
    const options = { queues: [queue], lease: LEASE, rebalanceInterval: REBALANCE_INTERVAL, poll: 50 }
    const workers = [await env.work(options), await env.work(options)]
    const lost: unknown[] = []
    for (const worker of workers) worker.on('leaseLost', (event) => lost.push(event))
    const completed = Promise.race(workers.map((worker) => next(worker, 'completed')))
    await env.lockstep.enqueue(queue, { id: 'a' })
    await jump(by, completed)
    await completed
    expect(lost).toEqual([])
    expect(recorder.runs).toHaveLength(1)
    expect(overlaps(recorder.runs)).toEqual([])
  },
)

test('P1: a dead process whose lease ends in an hour, by the server’s clock, keeps its claims for its lease', async () => {
  const queue = env.queue({ shards: 1, perform() {} })
  await env.lockstep.enqueue(queue, { id: 'a' })
  const [dead] = await env.sql<{ process_id: number }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('there', 1, '0', 1, '{}', $1, clock_timestamp() + interval '1 hour') RETURNING process_id`,
    [LEASE],
  )
  await env.sql('UPDATE lockstep.jobs SET claimed_by = $1, claimed_at = clock_timestamp()', [
    dead!.process_id,
  ])
  const worker = env.create({ queues: [queue], rebalanceInterval: REBALANCE_INTERVAL })
  const rescued = next(worker, 'rescued')
  const startedAt = performance.now()
  await worker.start()
  await rescued
  const waited = performance.now() - startedAt
  expect(waited).toBeGreaterThan(LEASE)
})

test('P1: nothing in sql/ but a view for people names the end of a lease', () => {
  const naming = readdirSync('sql', { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.sql') && /expires_at/.test(readFileSync(`sql/${file}`, 'utf8')),
  )
  expect(naming.sort()).toEqual(['5-views/process_list.sql', 'roles/roles.sql'])
})
