import type { Database, Queryable } from '../postgres/database.ts'
import { IDLE_TIMEOUT } from '../postgres/session.ts'

/** The name disappears with the transaction it was set in, and so shows whether the handler has ended that itself. */
export function beginRound(name: string): string {
  return `SET LOCAL lockstep.round = '${name}'`
}

/** Our time-outs are only for the completion. The checks of a COMMIT may take as long as the application allows. */
export const COMMIT_ROUND =
  'SET LOCAL lock_timeout TO DEFAULT; SET LOCAL statement_timeout TO DEFAULT; COMMIT'

/**
 * Called after the handler. Sets what the completion needs, and resolves to the name of the round whose transaction this
 * is. Rejects if the transaction is aborted. `lockTimeout`: ms.
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
