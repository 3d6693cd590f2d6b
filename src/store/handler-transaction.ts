import type { Database, Queryable } from '../postgres/database.ts'
import { IDLE_TIMEOUT } from '../postgres/session.ts'

/** Begins one. The name is gone with the transaction it was set in: so it shows whether the handler has ended that by itself. */
export function beginRound(name: string): string {
  return `SET LOCAL lockstep.round = '${name}'`
}

/** What a COMMIT checks may wait as long as the application says: time-outs of ours are for the completion alone. */
export const COMMIT_ROUND =
  'SET LOCAL lock_timeout TO DEFAULT; SET LOCAL statement_timeout TO DEFAULT; COMMIT'

/**
 * Once the handler has ended: the settings under which its completion is stored. Resolves to the name of the round whose
 * transaction this is. Rejects where it is aborted. `lockTimeout`: ms.
 */
export async function readyToComplete(
  database: Database,
  tx: Queryable,
  lockTimeout: number,
): Promise<string | null> {
  const text = `SELECT current_setting('lockstep.round', true) AS round,
    set_config('lock_timeout', '${lockTimeout}', true), set_config('statement_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '${IDLE_TIMEOUT}', true), set_config('client_encoding', 'UTF8', true)`
  const [row] = await database.query<{ round: string | null }>(text, [], tx)
  return row!.round
}
