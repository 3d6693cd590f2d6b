import type { Transactions } from '../handler.ts'
import { type Adapter, isFunction, type Members, openInside, wordingOf } from './adapter.ts'
import { recognizeClient } from './pg-client.ts'

interface Instance<Tx, Options> {
  transaction(options: Options, work: (transaction: Tx) => PromiseLike<void>): Promise<void>
  transaction(options?: Options): Promise<Tx>
}

const ADVICE = 'pass the transaction that sequelize.transaction() hands to its callback'
const WORDING = wordingOf(
  'a Sequelize transaction',
  ADVICE,
  'let its first statement be sequelize.query("SET TRANSACTION READ WRITE", { transaction })',
)

/** Transactions of a Sequelize instance. `options`: as for `sequelize.transaction`. */
export function transactionsOf<Tx, Options extends object>(
  sequelize: Instance<Tx, Options>,
  options?: Options,
): Transactions<Tx> {
  return {
    given: WORDING.given,
    transaction: (work) => sequelize.transaction(options ?? ({} as Options), work),
  }
}

/** Sequelize has no statement without interpolation but on its models' connection, which is a `pg` client. */
export const recognizeSequelize: Adapter = (tx) => {
  const { sequelize: owner, commit, rollback, finished, connection, transaction, QueryTypes } = tx as Members
  if (isFunction(transaction) && isFunction((tx as Members).define) && QueryTypes !== undefined)
    return `is a Sequelize instance: ${ADVICE}`
  if (typeof owner !== 'object' || !isFunction(commit) || !isFunction(rollback)) return undefined
  if (finished) return WORDING.ended
  if (typeof connection !== 'object' || connection === null)
    return `is a Sequelize transaction that has not begun, or has ended: ${ADVICE}`
  return (
    openInside(WORDING, connection, [recognizeClient]) ??
    'is a Sequelize transaction over a database that is not Postgres'
  )
}
