import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { lost, overlaps } from '../support/checker.ts'
import type { Run } from '../support/handler-log.ts'
import { shardsHeld } from '../support/shards.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 120_000 })

const LEASE = 4_000
/** What a slow machine takes to notice, divide and claim, when there is no lease to wait for. */
const SOON = 3_000

const env = useWorkers()
let processes: WorkerProcesses
let queues = 0

beforeEach(() => {
  processes = new WorkerProcesses()
  queues += 1
})
afterEach(() => processes.end())

const returned = (run: Run) => run.returned

test('P1 P3 R10: when a process is killed, its shards go on at once, its claims when its lease has ended', async () => {
  const queue = defineQueue(`killed ${queues}`, { shards: 8 })
  const ids = Array.from({ length: 64 }, (_, index) => `id-${index}`)
  await env.lockstep.enqueue(
    queue,
    ids.map((id, index) => ({ id, payload: id, performIn: index })),
  )
  const victim = await startGated(queue.name, ids)
  const claimed = await claimsOf(victim)
  const survivor = await start(queue.name)
  // Up to four: a shard moves between batches, and two of the victim's batches don't end.
  await survivor.heard<{ shards: number }>('rebalanced', ({ shards }) => shards >= 2)
  const shards = await shardsOf(claimed)
  const others = await waitingIn(await shardsHeld(env, survivor.processId, queue))
  await eventually(() => expect(done()).toEqual(expect.arrayContaining(others)))

  await victim.kill()
  const [{ left }] = (await env.sql<{ left: number }>(
    `SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS left
     FROM lockstep.processes WHERE process_id = $1`,
    [victim.processId],
  )) as [{ left: number }]
  expect(left).toBeGreaterThan(SOON / 2)
  const rest = ids.filter((id) => !claimed.includes(id))
  await eventually(() => expect(done().sort()).toEqual(rest.sort()), SOON)
  expect(shards).toHaveLength(2)

  await eventually(() => expect(done().sort()).toEqual(ids.sort()), left + SOON)
  const rescues = claimed.map((id) => ({ queue: queue.name, id, crashes: 1 }))
  await eventually(() => expect(survivor.of('rescued')).toEqual(expect.arrayContaining(rescues)))
  expect(overlaps(processes.runs, processes)).toEqual([])
  expect(lost(processes.runs, new Map(ids.map((id) => [id, [id]])))).toEqual([])
  await expectLeaseKept(claimed, victim, left)
})

test('P8: when all processes but one are killed at once, that one has their shards in its turn', {
  tags: 'slow',
}, async () => {
  const queue = defineQueue(`left alone ${queues}`, { shards: 8 })
  const all = await Promise.all([start(queue.name), start(queue.name), start(queue.name)])
  const held = async (one: WorkerProcess) => (await shardsHeld(env, one.processId, queue)).length
  await eventually(async () => expect((await Promise.all(all.map(held))).toSorted()).toEqual([2, 3, 3]))
  const [last, ...victims] = all.toSorted((one, other) => other.processId - one.processId)
  await Promise.all(victims.map((victim) => victim.kill()))
  await eventually(async () => expect(await held(last!)).toBe(8), SOON)
})

test('R10: a job that kills its process is failed after maxCrashes; the others of its batch are performed', {
  tags: 'slow',
}, async () => {
  const queue = defineQueue(`poisoned ${queues}`, { shards: 1 })
  const ids = ['a', 'b', 'poison', 'c', 'd']
  await env.lockstep.enqueue(
    queue,
    ids.map((id, index) => ({ id, payload: id, performIn: index })),
  )
  const policy = { name: queue.name, shards: 1, batchSize: 5, maxCrashes: 2, maxRetryCount: 0 }
  const next = () =>
    processes.fork({
      connectionString: env.connectionString,
      queue: policy,
      worker: { slots: 1, lease: 500, rebalanceInterval: 50, poll: 50 },
      poison: 'poison',
    })
  for (let crash = 1; crash <= 2; crash += 1) {
    await next().ended()
  }
  const last = next()
  const failed = await last.heard<{ id: string }>('failed')
  expect(failed.id).toBe('poison')
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))

  const [dead, ...none] = await env.sql<{ job_id: string; error: string }>(
    'SELECT m.job_id, m.error FROM lockstep.morgue m JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1',
    [queue.name],
  )
  expect(none).toEqual([])
  expect(dead).toMatchObject({
    job_id: 'poison',
    error: expect.stringMatching(/CrashLimitError: the worker process died 2 times in a row/),
  })
  const innocent = ids.filter((id) => id !== 'poison')
  expect(done().sort()).toEqual(innocent)
  expect(processes.runs.filter(({ id }) => id === 'poison')).toHaveLength(2)
})

function start(name: string): Promise<WorkerProcess> {
  return processes.start({
    connectionString: env.connectionString,
    queue: { name, shards: 8 },
    worker: { slots: 2, lease: LEASE },
  })
}

function startGated(name: string, gated: readonly string[]): Promise<WorkerProcess> {
  return processes.start({
    connectionString: env.connectionString,
    queue: { name, shards: 8 },
    worker: { slots: 2, lease: LEASE },
    gated,
  })
}

const done = () => [...new Set(processes.runs.filter(returned).map(({ id }) => id))]

async function claimsOf(victim: WorkerProcess): Promise<string[]> {
  const claims = () =>
    env.sql<{ id: string }>('SELECT id FROM lockstep.jobs WHERE claimed_by = $1', [victim.processId])
  return eventually(async () => {
    const rows = await claims()
    expect(rows).toHaveLength(2)
    return rows.map(({ id }) => id)
  })
}

async function shardsOf(ids: readonly string[]): Promise<number[]> {
  const rows = await env.sql<{ shard: number }>(
    'SELECT DISTINCT shard FROM lockstep.jobs WHERE id = ANY ($1)',
    [ids],
  )
  return rows.map(({ shard }) => shard)
}

async function waitingIn(shards: readonly number[]): Promise<string[]> {
  const rows = await env.sql<{ id: string }>(
    'SELECT id FROM lockstep.jobs WHERE shard = ANY ($1) AND claimed_by IS NULL',
    [shards],
  )
  return rows.map(({ id }) => id)
}

/** Expects that the victim's claims were not touched before its lease had ended. */
async function expectLeaseKept(
  claimed: readonly string[],
  victim: WorkerProcess,
  left: number,
): Promise<void> {
  for (const id of claimed) {
    const [, again] = processes.runs.filter((run) => run.id === id)
    const waited = Number(again!.begin - victim.endedAt!) / 1e6
    expect(waited).toBeGreaterThan(left - 100)
  }
}
