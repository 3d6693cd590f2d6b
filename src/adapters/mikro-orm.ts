import type { Transactions } from '../handler.ts'
import { type Adapter, isFunction, type Members, openInside, SET_FIRST, wordingOf } from './adapter.ts'
import { recognizeKnex } from './knex.ts'
import { recognizeKysely } from './kysely.ts'

interface EntityManager {
  fork(): EntityManager
  // biome-ignore lint/suspicious/noExplicitAny: of whatever class
  transactional(work: (em: any) => Promise<void>, options?: any): Promise<void>
}

const ADVICE = 'pass the em that em.transactional() hands to its callback'
const WORDING = wordingOf(
  'a MikroORM EntityManager',
  ADVICE,
  `begin it without { readOnly: true }; ${SET_FIRST}`,
)

/** Transactions of a MikroORM instance. Handlers get an EntityManager of their own, which is flushed when they have ended. */
export function transactionsOf<Em extends EntityManager>(orm: { readonly em: Em }): Transactions<Em> {
  return {
    given: WORDING.given,
    transaction: (work) => orm.em.fork().transactional(work, { isolationLevel: 'read committed' }),
  }
}

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
    openInside(WORDING, context as object, INSIDES) ??
    'is a MikroORM EntityManager over a database that is not Postgres'
  )
}
