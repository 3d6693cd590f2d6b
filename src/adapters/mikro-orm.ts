import { type Adapter, isFunction, type Members, openInside } from './adapter.ts'
import { knex } from './knex.ts'
import { kysely } from './kysely.ts'

const ADVICE = 'pass the em that em.transactional() hands to its callback'
/** What its transactions are inside: Kysely's since version 7, Knex' before. */
const INSIDES = [kysely, knex]

export const mikroOrm: Adapter = (tx) => {
  const { getTransactionContext, isInTransaction, em } = tx as Members
  if (typeof em === 'object' && em !== null && 'getTransactionContext' in em)
    return `is a MikroORM instance: ${ADVICE}`
  if (!isFunction(getTransactionContext) || !isFunction(isInTransaction)) return undefined
  const context = isInTransaction.call(tx) === true ? getTransactionContext.call(tx) : undefined
  if (context === undefined || context === null)
    return `is a MikroORM EntityManager outside a transaction: ${ADVICE}`
  return (
    openInside('a MikroORM EntityManager', 'transaction', context as object, INSIDES) ??
    'is a MikroORM EntityManager over a database that is not Postgres'
  )
}
