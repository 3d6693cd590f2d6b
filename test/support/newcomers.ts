import { expect } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { eventually, type WorkerEnvironment } from './worker-environment.ts'

/**
 * Tenants without a lane, of which all are taken, share none with one whose jobs have waited for most of a minute, once somebody
 * has told that.
 */
export async function newcomersAvoid(env: WorkerEnvironment, queue: Queue, tenant: string): Promise<void> {
  const laneOf = async (tenant: string) => {
    const { rows } = await env.pool.query<{ lane: number }>(
      `SELECT t.lane FROM lockstep.tenant_lanes t JOIN lockstep.queues q USING (queue_id)
       WHERE q.name = $1 AND t.tenant = $2 ORDER BY t.number LIMIT 1`,
      [queue.name, tenant],
    )
    return rows[0]!.lane
  }
  const lane = await laneOf(tenant)
  await eventually(async () => {
    const { rows } = await env.pool.query(
      `SELECT FROM lockstep.tenant_waits w JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 AND w.waits[-$2::integer] > 50`,
      [queue.name, lane],
    )
    expect(rows.length).toBeGreaterThan(0)
  })
  const newcomers = Array.from({ length: 60 }, (_, n) => `newcomer ${n}`)
  await env.lockstep.enqueue(
    queue,
    newcomers.map((tenant) => ({ id: tenant, tenant })),
  )
  for (const newcomer of newcomers) expect(await laneOf(newcomer)).not.toBe(lane)
}
