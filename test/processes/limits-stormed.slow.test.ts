import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue, type Limits, type Queue } from '../../src/index.ts'
import { lost, overlaps } from '../support/checker.ts'
import { type Claimed, crowds, rushes } from '../support/shares.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 240_000 })

const LEASE = 3_000

const env = useWorkers()
let processes: WorkerProcesses

beforeEach(async () => {
  processes = new WorkerProcesses()
  await env.sql(`CREATE TABLE IF NOT EXISTS claims (queue_id int, id text, tenant text, at timestamptz)`)
  await env.sql(`CREATE OR REPLACE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO public.claims VALUES (NEW.queue_id, NEW.id, NEW.tenant, NEW.claimed_at);
      RETURN NULL;
    END $$`)
  await env.sql(`CREATE OR REPLACE TRIGGER write_down AFTER UPDATE ON lockstep.jobs FOR EACH ROW
    WHEN (NEW.claimed_by IS NOT NULL AND NEW.fence <> OLD.fence) EXECUTE FUNCTION write_down()`)
})
afterEach(() => processes.end())

async function claimsOf(queue: Queue): Promise<(Claimed & { tenant: string })[]> {
  const rows = await env.sql<{ id: string; tenant: string; at: string }>(
    `SELECT c.id, c.tenant, (extract(epoch FROM c.at) * 1e9)::bigint::text AS at
     FROM claims c JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1`,
    [queue.name],
  )
  return rows.map((row) => ({ ...row, at: BigInt(row.at) }))
}

/** No limit was exceeded by what ran at once, or by what began within a window. */
async function expectWithin(queue: Queue, limits: Limits, tenantOf: (id: string) => string): Promise<void> {
  const { runs, deaths } = processes
  const claims = await claimsOf(queue)
  const tenants = [...new Set(claims.map(({ tenant }) => tenant))]
  const { tenant: each = {}, ...own } = limits
  if (own.concurrency) expect(crowds(runs, own.concurrency, { deaths })).toEqual([])
  if (own.rate) expect(rushes(claims, own.rate)).toEqual([])
  for (const tenant of tenants) {
    const mine = runs.filter(({ id }) => tenantOf(id) === tenant)
    if (each.concurrency) expect(crowds(mine, each.concurrency, { deaths })).toEqual([])
    const taken = claims.filter((claim) => claim.tenant === tenant)
    if (each.rate) expect(rushes(taken, each.rate)).toEqual([])
  }
}

test.each([false, true])(
  'R9 limits hold while the queue is paused, resharded, killed and requeued, and a process dies; transactional: %s',
  async (transactional) => {
    const limits = {
      concurrency: 6,
      rate: { jobs: 60, per: 0.5 },
      tenant: { concurrency: 3, rate: { jobs: 40, per: 0.5 } },
    }
    const queue = defineQueue(`stormed ${transactional}`, { shards: 8 })
    const ids = Array.from({ length: 1_500 }, (_, n) => `${'abcde'[n % 5]}${n}`)
    await env.lockstep.enqueue(
      queue,
      ids.map((id, n) => ({ id, payload: id, tenant: id[0]!, lane: n % 3, performIn: n })),
    )
    const options = {
      connectionString: env.connectionString,
      queue: { name: queue.name, shards: 8, limits, transactional },
      worker: { slots: 12, lease: LEASE, rebalanceInterval: 300 },
      work: 20,
    }
    const [victim] = await Promise.all([1, 2, 3].map(() => processes.start(options)))
    await processes.moreRunsOf(victim!)
    const storm = async () => {
      for (const shards of [12, 3, 8]) {
        await env.lockstep.reshard(queue, shards)
        await env.lockstep.pause(queue)
        await env.lockstep.kill(queue, { tenant: 'c' })
        await env.lockstep.resume(queue)
        await env.lockstep.requeue(queue, { tenant: 'c' })
        await sleep(300)
      }
    }
    const stormed = storm()
    await victim!.kill()
    const heir = processes.start(options)
    await Promise.all([stormed, heir])
    await eventually(async () => {
      expect(await env.jobs(queue)).toBe(0)
    }, 120_000)

    await expectWithin(queue, limits, (id) => id[0]!)
    expect(overlaps(processes.runs, processes)).toEqual([])
    expect(lost(processes.runs, new Map(ids.map((id) => [id, [id]])))).toEqual([])
  },
)

test('R9 of a thousand tenants with three jobs each at once, none exceeds that, and none is starved', async () => {
  const limits = { concurrency: 40, tenant: { concurrency: 3 } }
  const queue = defineQueue('tenants', { shards: 4 })
  const tenantOf = (id: string) => id.split('-')[0]!
  const many = Array.from({ length: 5_000 }, (_, n) => ({ id: `t${n % 1_000}-${n}`, lane: 0 }))
  const large = Array.from({ length: 1_500 }, (_, n) => ({ id: `large-${n}`, lane: 0 }))
  const jobs = [...large, ...many].map((job, n) => ({
    ...job,
    payload: job.id,
    tenant: tenantOf(job.id),
    performIn: n,
  }))
  await env.lockstep.enqueue(queue, jobs)
  const options = {
    connectionString: env.connectionString,
    queue: { name: queue.name, shards: 4, limits },
    worker: { slots: 20, lease: LEASE, rebalanceInterval: 300 },
    work: 30,
  }
  await Promise.all([1, 2].map(() => processes.start(options)))
  const left = async (where: string) => {
    const [row] = await env.sql<{ count: number }>(`SELECT count(*)::int FROM lockstep.jobs WHERE ${where}`)
    return row!.count
  }
  // Others don't wait for the large one, whose jobs were all due before.
  await eventually(async () => expect(await left(`tenant <> 'large'`)).toBe(0), 120_000)
  expect(await left(`tenant = 'large'`)).toBeGreaterThan(0)
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), 120_000)
  await expectWithin(queue, limits, tenantOf)
})
