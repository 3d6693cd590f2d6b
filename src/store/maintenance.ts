import type { Database, Queryable } from '../postgres/database.ts'

/** Limits how long a process that stalls in the middle keeps others from this work. */
const BEGIN = "SET LOCAL idle_in_transaction_session_timeout = '5s'"

/**
 * Runs `work`, which may take seconds, unless another session is running the same work. Returns its result, or undefined
 * if it did not run. The lock ends with the transaction, so a process that dies leaves nothing behind.
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
