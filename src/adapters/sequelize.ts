import { type Adapter, isFunction, type Members } from './adapter.ts'
import { onClient, problemOfClient } from './pg-client.ts'

const ADVICE =
  'pass the transaction that sequelize.transaction() hands to its callback, and await the call in it'

/** Sequelize has no statement without interpolation but on its models' connection, which is a `pg` client. */
export const sequelize: Adapter = (tx) => {
  const { sequelize: owner, commit, rollback, finished, connection, transaction, QueryTypes } = tx as Members
  if (isFunction(transaction) && isFunction((tx as Members).define) && QueryTypes !== undefined)
    return `is a Sequelize instance: ${ADVICE}`
  if (typeof owner !== 'object' || !isFunction(commit) || !isFunction(rollback)) return undefined
  if (finished) return `is a Sequelize transaction that has ended (${finished}): ${ADVICE}`
  if (typeof connection !== 'object' || connection === null)
    return `is a Sequelize transaction that has not begun, or has ended: ${ADVICE}`
  const problem = problemOfClient(connection)
  if (problem) return `is a Sequelize transaction whose client ${problem}`
  return {
    given: 'a Sequelize transaction',
    casts: 'none',
    run: (text, values) => onClient(connection, text, values),
  }
}
