import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { lost, overlaps } from '../support/checker.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 180_000 })

const LEASE = 4_000
const [OF_QUEUE, OF_TENANT] = [12, 5]

const env = useWorkers()
let processes: WorkerProcesses

beforeEach(() => {
  processes = new WorkerProcesses()
})
afterEach(() => processes.end())

/** How many runs were under way at once, at most; those of a process that was killed until it was. */
function mostAtOnce(of: (id: string) => boolean): number {
  const ends = processes.runs
    .filter(({ id }) => of(id))
    .flatMap(({ begin, end, process }) => [
      { at: begin, by: 1 },
      { at: end ?? processes.deaths.get(process)!, by: -1 },
    ])
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.by - b.by))
  let [now, most] = [0, 0]
  for (const { by } of ends) {
    now += by
    most = Math.max(most, now)
  }
  return most
}

test('no more ids are held than the limits say, by three processes with 64 slots in all, while one is killed', async () => {
  const queue = defineQueue('limited', { shards: 8 })
  const tenants = ['a', 'b', 'c', 'd']
  const ids = Array.from({ length: 1_200 }, (_, n) => `${tenants[n % 4]}${n}`)
  await env.lockstep.enqueue(
    queue,
    ids.map((id, n) => ({ id, payload: id, tenant: id[0]!, lane: n % 2, performIn: n })),
  )
  const options = {
    connectionString: env.connectionString,
    queue: { name: queue.name, limits: { concurrency: OF_QUEUE, tenant: { concurrency: OF_TENANT } } },
    worker: { slots: 22, lease: LEASE, rebalanceInterval: 300 },
    work: 30,
  }
  const [victim] = await Promise.all([1, 2, 3].map(() => processes.start(options)))

  const held: number[] = []
  const [mostOfTenant, watching] = [[] as number[], new AbortController()]
  const watch = (async () => {
    while (!watching.signal.aborted) {
      const rows = await env.sql<{ count: number }>(
        `SELECT count(*)::int AS count FROM lockstep.jobs WHERE claimed_by IN (SELECT process_id FROM lockstep.processes)
         GROUP BY tenant`,
      )
      held.push(rows.reduce((sum, { count }) => sum + count, 0))
      mostOfTenant.push(Math.max(0, ...rows.map(({ count }) => count)))
      await sleep(1)
    }
  })()
  await processes.moreRunsOf(victim!)
  await victim!.kill()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), 120_000)
  watching.abort()
  await watch

  expect(Math.max(...held)).toBe(OF_QUEUE)
  expect(Math.max(...mostOfTenant)).toBeLessThanOrEqual(OF_TENANT)
  expect(mostAtOnce(() => true)).toBeLessThanOrEqual(OF_QUEUE)
  for (const tenant of tenants)
    expect(mostAtOnce((id) => id.startsWith(tenant))).toBeLessThanOrEqual(OF_TENANT)
  expect(overlaps(processes.runs, processes)).toEqual([])
  expect(lost(processes.runs, new Map(ids.map((id) => [id, [id]])))).toEqual([])
})

test('what a killed process held is given back within its lease', async () => {
  const queue = defineQueue('given back', { shards: 4 })
  const ids = Array.from({ length: 8 }, (_, n) => `id-${n}`)
  await env.lockstep.enqueue(
    queue,
    ids.map((id) => ({ id, payload: id })),
  )
  const options = {
    connectionString: env.connectionString,
    queue: { name: queue.name, limits: { concurrency: 2 } },
    worker: { slots: 8, lease: LEASE, rebalanceInterval: 300 },
  }
  const victim = await processes.start({ ...options, gated: ids })
  await eventually(() => expect(victim.of('started')).toHaveLength(2))
  await processes.start(options)
  await victim.kill()
  const killedAt = performance.now()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), LEASE + 4_000)
  expect(performance.now() - killedAt).toBeGreaterThan(LEASE / 2)
})
