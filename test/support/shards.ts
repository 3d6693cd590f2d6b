import type { Queue } from '../../src/index.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** The shards of a queue whose locks a process has: these locks keep two processes out of one shard. */
export async function shardsHeld(
  env: WorkerEnvironment,
  processId: number,
  { name }: Pick<Queue, 'name'>,
): Promise<number[]> {
  const rows = await env.sql<{ shard: number }>(
    `SELECT l.objid::bigint::int % 16384 AS shard FROM pg_locks l
     JOIN lockstep.queues q ON l.objid::bigint / 16384 = q.queue_id
     WHERE q.name = $2 AND l.locktype = 'advisory' AND l.classid = 'lockstep.jobs'::regclass AND l.pid = (
       SELECT p.pid FROM pg_locks p JOIN pg_database d ON d.oid = p.database AND d.datname = current_database()
       WHERE p.locktype = 'advisory' AND p.classid = 'lockstep.processes'::regclass AND p.objid = $1::int::oid)
     ORDER BY shard`,
    [processId, name],
  )
  return rows.map(({ shard }) => shard)
}
