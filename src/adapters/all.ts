import { nameOf } from '../options.ts'
import { type Adapter, isFunction, type Members, type OpenTransaction } from './adapter.ts'
import { drizzle } from './drizzle.ts'
import { knex } from './knex.ts'
import { kysely } from './kysely.ts'
import { mikroOrm } from './mikro-orm.ts'
import { pgClient } from './pg-client.ts'
import { postgresJs } from './postgres-js.ts'
import { prisma } from './prisma.ts'
import { queryable } from './queryable.ts'
import { sequelize } from './sequelize.ts'
import { typeOrm } from './typeorm.ts'

/** The last one takes whatever else has a method `query`. */
const ADAPTERS: readonly Adapter[] = [
  pgClient,
  prisma,
  kysely,
  drizzle,
  knex,
  postgresJs,
  typeOrm,
  sequelize,
  mikroOrm,
  queryable,
]

const KNOWN =
  'pass a transaction of pg, Kysely, Drizzle, Prisma, Knex, postgres.js, TypeORM, Sequelize or MikroORM, or an object whose method query(text, values) runs a statement in the transaction'

/** The transaction that `tx` is, of whichever library; a string says why it is none, and what to pass instead. */
export function openTransactionOf(tx: unknown): OpenTransaction | string {
  if ((typeof tx === 'object' && tx !== null) || typeof tx === 'function') {
    for (const adapter of ADAPTERS) {
      const found = adapter(tx)
      if (found !== undefined) return found
    }
    if (isFunction((tx as Members).then)) return 'is a promise: await it first'
  }
  return `is ${nameOf(tx)}: ${KNOWN}`
}
