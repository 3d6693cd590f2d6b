import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { lost } from '../support/checker.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 120_000 })

const LEASE = 1_000

const env = useWorkers()
let processes: WorkerProcesses

beforeEach(() => {
  processes = new WorkerProcesses()
})
afterEach(() => processes.end())

test('P1 P6: a process that was stopped for longer than its lease and goes on is refused, and works on', async () => {
  const queue = defineQueue('stopped', { shards: 3 })
  await env.lockstep.enqueue(queue, { id: 'long', payload: 'long' })
  const options = {
    connectionString: env.connectionString,
    queue: { name: queue.name, shards: 3 },
    worker: { slots: 2, lease: LEASE },
  }
  const stopped = await processes.start({ ...options, gated: ['long'] })
  await stopped.heard<{ ids: string[] }>('started', ({ ids }) => ids.includes('long'))
  await Promise.all([processes.start(options), processes.start(options)])
  const former = stopped.processId

  stopped.signal('SIGSTOP')
  const ended = leaseEnd(former)
  const ids = Array.from({ length: 30 }, (_, index) => `id-${index}`)
  await env.lockstep.enqueue(
    queue,
    ids.map((id) => ({ id, payload: id })),
  )
  await eventually(() => expect(doneBy(/./)).toContain('long'))
  const [first, second] = processes.runs.filter(({ id }) => id === 'long')
  expect(first).toMatchObject({ process: stopped.name, end: undefined })
  expect(second!.process).not.toBe(stopped.name)
  expect(second!.begin).toBeGreaterThan(await ended)

  stopped.signal('SIGCONT')
  await stopped.heard('leaseLost')
  stopped.open()
  expect(await stopped.heard('refused')).toEqual({ queue: queue.name, id: 'long' })
  // Under its new registration it may have completed other jobs by now.
  const completed = stopped.of('completed') as { ids: string[] }[]
  expect(completed.flatMap((batch) => batch.ids)).not.toContain('long')

  // Under its new registration, it takes its part of the work again.
  await eventually(async () => {
    const more = Array.from({ length: 10 }, () => `id-${Math.random()}`)
    ids.push(...more)
    await env.lockstep.enqueue(
      queue,
      more.map((id) => ({ id, payload: id })),
    )
    expect(stopped.of('completed')).not.toEqual([])
  })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(lost(processes.runs, new Map(ids.map((id) => [id, [id]])))).toEqual([])
  expect(doneBy(new RegExp(`^${stopped.name}$`)).length).toBeGreaterThan(1)
})

test('P1: one that works on is killed while the lease it could not renew still runs', async () => {
  const queue = defineQueue('unheeding', { shards: 1 })
  await env.lockstep.enqueue(queue, { id: 'deaf' })
  const deaf = await processes.start({
    connectionString: env.connectionString,
    queue: { name: queue.name, shards: 1 },
    worker: { slots: 1, lease: 2 * LEASE, killOnLeaseEnd: true },
    gated: ['deaf'],
  })
  await deaf.heard('started')
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  const ends = await leaseEnd(deaf.processId)
  await deaf.ended()
  expect(deaf.child.signalCode).toBe('SIGKILL')
  expect(deaf.endedAt!).toBeLessThan(ends)
  await blocker.query('ROLLBACK')
})

test('P1: a process of its own that works on at the end of a lost lease is killed by then', async () => {
  const queue = defineQueue('killed', { shards: 1 })
  await env.lockstep.enqueue(queue, { id: 'deaf' })
  const options = {
    connectionString: env.connectionString,
    queue: { name: queue.name, shards: 1 },
    worker: { slots: 1, lease: LEASE, killOnLeaseEnd: true },
  }
  const deaf = await processes.start({ ...options, gated: ['deaf'] })
  await deaf.heard('started')
  const ends = await leaseEnd(deaf.processId)
  await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [deaf.processId])
  await deaf.ended()
  expect(deaf.child.signalCode).toBe('SIGKILL')
  expect(deaf.endedAt! - ends).toBeLessThan(BigInt(LEASE) * 1_000_000n)

  const idle = await processes.start(options)
  await idle.heard('completed')
  await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [idle.processId])
  await idle.heard('leaseLost')
  await env.lockstep.enqueue(queue, { id: 'next' })
  await idle.heard<{ ids: string[] }>('completed', ({ ids }) => ids.includes('next'))
})

const doneBy = (name: RegExp) =>
  processes.runs.filter(({ process, returned }) => returned && name.test(process)).map(({ id }) => id)

/** When a lease that no one renews any more ends, on the clock of the log. */
async function leaseEnd(processId: number): Promise<bigint> {
  const before = process.hrtime.bigint()
  const [row] = await env.sql<{ left: number }>(
    `SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS left
     FROM lockstep.processes WHERE process_id = $1`,
    [processId],
  )
  return before + BigInt(Math.floor(row!.left * 1e6))
}
