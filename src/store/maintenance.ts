import type { Database, Queryable } from '../postgres/database.ts'

/** A process that stands still in the middle of it keeps others from it for so long. */
const BEGIN = "SET LOCAL idle_in_transaction_session_timeout = '5s'"

/**
 * Runs `work`, which may take some seconds, unless another session runs the same, and returns what it returned; undefined where
 * it was not run. The lock lasts as long as the transaction, so that a process that dies with it leaves nothing behind.
 */
export function runAlone<T>(
  database: Database,
  name: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const locked = async (client: Queryable) => {
    const [row] = await database.query<{ locked: boolean }>(
      'SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0)) AS locked',
      [`pg-lockstep ${name} ${database.schema}`],
      client,
    )
    return row!.locked ? work() : undefined
  }
  return database.transaction(locked, { begin: BEGIN })
}
