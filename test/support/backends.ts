import type { WorkerEnvironment } from './worker-environment.ts'

type Sql = Pick<WorkerEnvironment, 'sql'>

/** The connections of a worker, by what they do. */
export type Backend = 'pool' | 'lock' | 'lease' | 'listen'

const OURS = "datname = current_database() AND application_name = 'pg-lockstep'"
const LOCK = `pid IN (SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 'lockstep.processes'::regclass)`
const LISTEN = "query ~* '^((un)?listen|notify) '"
const LEASE = `query LIKE '%SET renewal%' OR query LIKE '%INTO "lockstep".processes%'`

const CONDITIONS: Record<Backend, string> = {
  lock: LOCK,
  listen: LISTEN,
  lease: LEASE,
  pool: `NOT (${LOCK}) AND NOT (${LISTEN}) AND NOT (${LEASE})`,
}

/** Server processes of workers. For `pool`, also those of the Lockstep object. */
export async function backends(env: Sql, kind: Backend): Promise<number[]> {
  const rows = await env.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE ${OURS} AND (${CONDITIONS[kind]})`,
  )
  return rows.map(({ pid }) => pid)
}

/** Ends the connections, as the network or an administrator might; returns how many there were. */
export async function terminate(env: Sql, ...kinds: readonly Backend[]): Promise<number> {
  const pids = (await Promise.all(kinds.map((kind) => backends(env, kind)))).flat()
  await env.sql('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS p(pid)', [pids])
  return pids.length
}
