import { appendFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from '../../src/index.ts'
import type { WorkerEnvironment } from '../support/worker-environment.ts'

/** Writes what the library logs in a process of the cluster, as lines of JSON, beside the log of handlers. */
export function loggerBeside(log: string, name: string): Logger {
  const file = join(dirname(log), 'library.log')
  const say = (level: string) => (fields: object, message: string) =>
    appendFileSync(file, `${JSON.stringify({ at: new Date(), name, level, message, ...fields })}\n`)
  return { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') }
}

const STATE = {
  locks: `SELECT pid, classid::regclass::text AS name, objid::bigint::integer AS number, mode, granted FROM pg_locks
    WHERE locktype = 'advisory' ORDER BY 1, 2, 3`,
  processes: 'SELECT *, expires_at - clock_timestamp() AS left FROM lockstep.processes',
  jobs: `SELECT queue_id, shard, claimed_by, count(*), min(perform_in) - clock_timestamp() AS due FROM lockstep.jobs
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
  sessions: `SELECT pid, application_name, state, wait_event, backend_start, state_change, left(query, 200) AS query
    FROM pg_stat_activity WHERE datname IS NOT NULL`,
}

/** Writes the state of the database to a file, for when work does not go on. */
export async function writeState(on: Pick<WorkerEnvironment, 'sql'>, file: string): Promise<void> {
  const state: Record<string, unknown> = { at: new Date() }
  for (const [name, text] of Object.entries(STATE)) state[name] = await on.sql(text)
  writeFileSync(file, JSON.stringify(state, null, 1))
}
