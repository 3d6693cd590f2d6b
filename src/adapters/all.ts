import { isPlain, nameOf } from '../options.ts'
import { type Adapter, isFunction, type Members, type OpenTransaction } from './adapter.ts'
import { recognizeDrizzle } from './drizzle.ts'
import { recognizeKnex } from './knex.ts'
import { recognizeKysely } from './kysely.ts'
import { recognizeMikroOrm } from './mikro-orm.ts'
import { recognizeClient } from './pg-client.ts'
import { recognizePostgresJs } from './postgres-js.ts'
import { recognizePrisma } from './prisma.ts'
import { recognizeQueryable } from './queryable.ts'
import { recognizeSequelize } from './sequelize.ts'
import { recognizeTypeOrm } from './typeorm.ts'

/** The last one takes whatever else has a method `query`. */
const ADAPTERS: readonly Adapter[] = [
  recognizeClient,
  recognizePrisma,
  recognizeKysely,
  recognizeDrizzle,
  recognizeKnex,
  recognizePostgresJs,
  recognizeTypeOrm,
  recognizeSequelize,
  recognizeMikroOrm,
  recognizeQueryable,
]

const KNOWN =
  'pass a transaction of pg, Kysely, Drizzle, Prisma, Knex, postgres.js, TypeORM, Sequelize or MikroORM, or an object whose method query(text, values) runs a statement in the transaction'

/** The transaction that `tx` is, of whichever library; a string says why it is none, and what to pass instead. */
export function openTransactionOf(tx: unknown): OpenTransaction | string {
  if ((typeof tx === 'object' && tx !== null) || typeof tx === 'function') {
    const found = recognized(tx)
    if (found !== undefined) return found
    if (isFunction((tx as Members).then)) return 'is a promise: await it first'
    if (isFunction(tx))
      return `is a function: ${KNOWN}; of Knex’ transactionProvider(), pass what the function returns, and await that first`
    const place = placeOfTransaction(tx)
    if (place) return `is an object with ${place.given} in it: pass that, its \`${place.key}\``
  }
  return `is ${nameOf(tx)}: ${KNOWN}`
}

function recognized(tx: object): ReturnType<Adapter> {
  for (const adapter of ADAPTERS) {
    const found = adapter(tx)
    if (found !== undefined) return found
  }
  return undefined
}

/** Libraries take options such as `{ transaction }`, and people pass them on. */
function placeOfTransaction(tx: object): { readonly key: string; readonly given: string } | undefined {
  if (!isPlain(tx)) return undefined
  for (const [key, value] of Object.entries(tx)) {
    const found = typeof value === 'object' || isFunction(value) ? recognized(value ?? {}) : undefined
    if (typeof found === 'object') return { key, given: found.given }
  }
  return undefined
}
