import type { Transactions } from '../handler.ts'
import { type Adapter, isFunction, type Members, openInside } from './adapter.ts'
import { recognizeKnex } from './knex.ts'
import { recognizeKysely } from './kysely.ts'

interface EntityManager {
  fork(): EntityManager
  // biome-ignore lint/suspicious/noExplicitAny: of whatever class
  transactional(work: (em: any) => Promise<void>, options?: any): Promise<void>
}

const GIVEN = 'a MikroORM EntityManager'

/** Transactions of a MikroORM instance. Handlers get an EntityManager of their own, which is flushed when they have ended. */
export function transactionsOf<Em extends EntityManager>(orm: { readonly em: Em }): Transactions<Em> {
  return {
    given: GIVEN,
    transaction: (work) => orm.em.fork().transactional(work, { isolationLevel: 'read committed' }),
  }
}

const ADVICE = 'pass the em that em.transactional() hands to its callback'
/** What its transactions are inside: Kysely's since version 7, Knex' before. */
const INSIDES = [recognizeKysely, recognizeKnex]

export const recognizeMikroOrm: Adapter = (tx) => {
  const { getTransactionContext, isInTransaction, em } = tx as Members
  if (typeof em === 'object' && em !== null && 'getTransactionContext' in em)
    return `is a MikroORM instance: ${ADVICE}`
  if (!isFunction(getTransactionContext) || !isFunction(isInTransaction)) return undefined
  const context = isInTransaction.call(tx) === true ? getTransactionContext.call(tx) : undefined
  if (context === undefined || context === null)
    return `is a MikroORM EntityManager outside a transaction: ${ADVICE}`
  return (
    openInside(GIVEN, 'transaction', context as object, INSIDES) ??
    'is a MikroORM EntityManager over a database that is not Postgres'
  )
}
