import type { Transactions } from '../handler.ts'
import { type Adapter, isFunction, type Members, SET_FIRST, wordingOf } from './adapter.ts'
import { onClient } from './pg-client.ts'

interface KnexTransaction {
  readonly client: { acquireConnection(): Promise<object> }
  isCompleted(): boolean
}

interface Instance<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>, config: { isolationLevel: 'read committed' }): Promise<T>
}

const ADVICE = 'pass the trx that knex.transaction() hands to its callback'
const WORDING = wordingOf('a Knex transaction', ADVICE, `begin it without { readOnly: true }; ${SET_FIRST}`)

/** Transactions of a Knex instance. */
export function transactionsOf<Tx>(knex: Instance<Tx>): Transactions<Tx> {
  return {
    given: WORDING.given,
    transaction: (work) => knex.transaction(work, { isolationLevel: 'read committed' }),
  }
}

/**
 * The connection of its transaction is a `pg` client, which says what the server said; Knex would put the statement and its
 * values in front of it.
 */
export const recognizeKnex: Adapter = (tx) => {
  const { raw, client, isTransaction } = tx as unknown as Members
  if (!isFunction(tx) || !isFunction(raw) || typeof client !== 'object' || client === null) return undefined
  if (isTransaction !== true) return `is a Knex instance: ${ADVICE}`
  const trx = tx as unknown as KnexTransaction
  if (trx.isCompleted()) return WORDING.ended
  return {
    ...WORDING,
    casts: 'none',
    connection: () => trx.client.acquireConnection(),
    run: async (text, values) => onClient(await trx.client.acquireConnection(), text, values),
  }
}
