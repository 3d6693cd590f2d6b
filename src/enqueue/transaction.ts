import { CompiledQuery, type Kysely, type Transaction } from 'kysely'
import type pg from 'pg'
import { LockstepError } from '../errors.ts'
import type { Queryable } from '../postgres/database.ts'
import { hasCode, toLockstepError } from '../postgres/failure.ts'

/**
 * What `tx` takes: a `pg` client or pool, a Kysely transaction, or anything with `query(text, values)` that
 * resolves to `{ rows }`.
 */
// biome-ignore lint/suspicious/noExplicitAny: a Kysely transaction of whatever tables the application has
export type EnqueueTransaction = pg.ClientBase | pg.Pool | Transaction<any> | Queryable

/** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` for what can't run statements in a transaction */
export function toQueryable(tx: EnqueueTransaction): Queryable {
  if (isKysely(tx)) {
    if (tx.isTransaction) return { query: (query, values) => runOnKysely(tx, query, values) }
    throw bad(
      '`tx` is a Kysely instance: pass the transaction it hands to the callback of transaction().execute()',
    )
  }
  if (typeof (tx as Queryable | null)?.query === 'function') return tx as Queryable
  throw bad('`tx` must be a pg client, a Kysely transaction, or have a method query(text, values)')
}

export function isPool(tx: unknown): tx is pg.Pool {
  return typeof tx === 'object' && tx !== null && 'totalCount' in tx && 'connect' in tx
}

const SAVEPOINT = 'lockstep_enqueue'

/** Runs `work` so that all of it or nothing is stored, whether the client has begun a transaction or not. */
export async function allOrNothing(on: Queryable, work: () => Promise<void>): Promise<void> {
  const inTransaction = await trySavepoint(on)
  if (!inTransaction) await on.query('BEGIN')
  try {
    await work()
  } catch (error) {
    await on.query(inTransaction ? `ROLLBACK TO ${SAVEPOINT}` : 'ROLLBACK').catch(() => {})
    throw error
  }
  await on.query(inTransaction ? `RELEASE ${SAVEPOINT}` : 'COMMIT')
}

async function trySavepoint(on: Queryable): Promise<boolean> {
  try {
    await on.query(`SAVEPOINT ${SAVEPOINT}`)
    return true
  } catch (error) {
    if (hasCode(error, '25P01')) return false
    throw toLockstepError(error)
  }
}

function isKysely(tx: unknown): tx is Kysely<unknown> & { isTransaction: boolean } {
  return typeof tx === 'object' && tx !== null && 'executeQuery' in tx && 'isTransaction' in tx
}

/** Kysely takes text and values; ours may come as one object, as `pg` takes it too. */
async function runOnKysely(tx: Kysely<unknown>, query: unknown, values: readonly unknown[] = []) {
  const given =
    typeof query === 'string' ? { text: query, values } : (query as { text: string; values: unknown[] })
  const { rows } = await tx.executeQuery(CompiledQuery.raw(given.text, [...given.values]))
  return { rows }
}

function bad(message: string): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_TRANSACTION', message)
}
