import { randomUUID } from 'node:crypto'
import type { CompiledQuery, Kysely, Transaction } from 'kysely'
import type pg from 'pg'
import { LockstepError } from '../errors.ts'
import { nameOf } from '../options.ts'
import type { Queryable } from '../postgres/database.ts'
import { Joined } from './joined.ts'
import { problemOfClient } from './pg-client.ts'

/** Excludes pools, which run each statement in its own transaction: only they have `totalCount`. */
export interface TransactionQueryable extends Queryable {
  readonly totalCount?: never
}

/**
 * The values that `tx` accepts: a `pg` client between BEGIN and COMMIT, a Kysely transaction, or any object whose
 * `query(text, values)` runs a statement in an open transaction.
 */
// biome-ignore lint/suspicious/noExplicitAny: a Kysely transaction of whatever tables the application has
export type EnqueueTransaction = pg.ClientBase | Transaction<any> | TransactionQueryable

/** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` if `tx` can't run statements in a transaction */
export function joinTransaction(tx: EnqueueTransaction | undefined): Joined {
  if (tx === undefined)
    throw bad('`tx` is undefined: pass the transaction, or omit the key to push without one')
  if (isPool(tx)) {
    throw bad(
      '`tx` is a pg Pool, which runs each statement in a transaction of its own: pass the client that BEGIN was sent to, from pool.connect()',
    )
  }
  const given = nameOf(tx)
  if (isKysely(tx)) return joinKysely(tx, given)
  if (typeof (tx as Queryable | null)?.query !== 'function') {
    throw bad(
      `\`tx\` is ${given}: pass a pg client, a Kysely transaction, or an object whose method query(text, values) runs a statement in the transaction`,
    )
  }
  const problem = problemOfClient(tx)
  if (problem) throw bad(`\`tx\` is a pg client that ${problem}`)
  return new Joined(given, (text, values) => (tx as Queryable).query(text, values), placeOf(tx))
}

/** BEGIN was never sent, or COMMIT or ROLLBACK was sent before all jobs of the call were pushed. */
export function notInTransaction(given: string, cause?: unknown): LockstepError {
  return bad(
    `\`tx\`, ${given}, is in no transaction, or no longer in the one it was in when the call began: pass a client with an open transaction and await the call before COMMIT or ROLLBACK, or omit \`tx\` to push without one`,
    cause,
  )
}

function isPool(tx: unknown): boolean {
  return typeof tx === 'object' && tx !== null && 'totalCount' in tx && 'connect' in tx
}

interface KyselyInstance extends Kysely<unknown> {
  readonly isTransaction: boolean
}

/** Kysely's own message: its transactions know when they have ended, and send nothing afterwards. */
function hasEnded(error: unknown): boolean {
  return error instanceof Error && /^Transaction is already (committed|rolled back)$/.test(error.message)
}

function isKysely(tx: unknown): tx is KyselyInstance {
  return typeof tx === 'object' && tx !== null && 'executeQuery' in tx && 'isTransaction' in tx
}

function joinKysely(tx: KyselyInstance, given: string): Joined {
  if (!tx.isTransaction) {
    throw bad(
      '`tx` is a Kysely instance: pass the transaction it hands to the callback of transaction().execute()',
    )
  }
  const query = async (text: string, values: readonly unknown[] = []) => {
    try {
      return await tx.executeQuery(compiled(text, values))
    } catch (error) {
      throw hasEnded(error) ? notInTransaction(given, error) : error
    }
  }
  return new Joined(given, query)
}

/** Mimics Kysely's compiled raw SQL. Loading Kysely would cost every producer, and the caller's version may differ. */
function compiled(text: string, values: readonly unknown[]): CompiledQuery {
  const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] } as const
  return { sql: text, parameters: [...values], query, queryId: { queryId: randomUUID() } }
}

/** Reads the fields of a `pg` client. */
function placeOf(tx: object): string | undefined {
  const { database, host, port } = tx as { database?: unknown; host?: unknown; port?: unknown }
  return typeof database === 'string' ? `"${database}" on ${host}:${port}` : undefined
}

function bad(message: string, cause?: unknown): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_TRANSACTION', message, { cause })
}
