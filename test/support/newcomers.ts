import { expect } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { eventually, type WorkerEnvironment } from './worker-environment.ts'

export interface Backlog {
  readonly lane: number
  /** Has its jobs in the same lane as the one with the backlog. */
  readonly neighbour: string
}

/** All lanes of tenants are taken, and one tenant, which shares its lane, has jobs that have been due for a minute. */
export async function pileUp(env: WorkerEnvironment, queue: Queue): Promise<Backlog> {
  const tenants = Array.from({ length: 40 }, (_, n) => `t${n}`)
  await env.lockstep.enqueue(
    queue,
    tenants.map((tenant) => ({ id: tenant, tenant })),
  )
  const { rows } = await env.pool.query<{ lane: number; tenants: [string, string] }>(
    `SELECT t.lane, array_agg(t.tenant) AS tenants FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id)
     WHERE q.name = $1 GROUP BY t.lane HAVING count(*) > 1`,
    [queue.name],
  )
  const {
    lane,
    tenants: [tenant, neighbour],
  } = rows[0]!
  const performIn = new Date(Date.now() - 60_000)
  const jobs = Array.from({ length: 60 }, (_, n) => ({ id: `piled up ${n}`, tenant, performIn }))
  await env.lockstep.enqueue(queue, jobs)
  return { lane, neighbour }
}

/** Once somebody has told of the backlog, jobs of tenants that have no lane, and of its neighbour, go to other lanes. */
export async function othersAvoid(
  env: WorkerEnvironment,
  queue: Queue,
  { lane, neighbour }: Backlog,
): Promise<void> {
  await eventually(async () => {
    const { rows } = await env.pool.query(
      `SELECT FROM lockstep.tenant_waits w JOIN lockstep.queues q USING (queue_id)
       WHERE q.name = $1 AND w.waits[-$2::integer] > 50 AND w.tenants[-$2::integer] <> ''`,
      [queue.name, lane],
    )
    expect(rows.length).toBeGreaterThan(0)
  })
  const others = [neighbour, ...Array.from({ length: 60 }, (_, n) => `newcomer ${n}`)]
  await env.lockstep.enqueue(
    queue,
    others.map((tenant) => ({ id: `later ${tenant}`, tenant })),
  )
  const { rows } = await env.pool.query<{ lane: number }>(
    `SELECT t.lane FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id)
     WHERE q.name = $1 AND t.tenant = ANY ($2) ORDER BY t.number DESC LIMIT $3`,
    [queue.name, others, others.length],
  )
  expect(rows).toHaveLength(others.length)
  expect(rows.map((row) => row.lane)).not.toContain(lane)
}
