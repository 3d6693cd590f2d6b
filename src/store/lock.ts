import type pg from 'pg'
import { quoteIdentifier } from '../postgres/schema-name.ts'
import { MAX_SHARDS } from '../queue.ts'

/**
 * Session advisory locks, named by the table of what they stand for and a number in it: unique in the database,
 * so that two schemas never meet. A shard's number has room for all shards a queue may have.
 */
export type LockedTable = 'jobs' | 'processes' | 'queues'

export function shardNumber(queueId: number, shard: number): number {
  return (queueId * MAX_SHARDS + shard) | 0
}

type Session = Pick<pg.ClientBase, 'query'>

/** Resolves to the numbers for which it was done. */
export type Locking = (
  session: Session,
  schema: string,
  table: LockedTable,
  numbers: readonly number[],
) => Promise<ReadonlySet<number>>

/** Without a limit or a condition, a function is called once for each row. */
function calling(lock: string): Locking {
  return async (session, schema, table, numbers) => {
    const { rows } = await session.query(
      `SELECT number, ${lock}($1::regclass::oid::integer, number) AS done FROM unnest($2::integer[]) AS number`,
      [`${quoteIdentifier(schema)}.${table}`, numbers],
    )
    return new Set(rows.filter(({ done }) => done === true).map(({ number }) => number))
  }
}

export const tryLock = calling('pg_try_advisory_lock')
export const unlock = calling('pg_advisory_unlock')

/** Held by every waiting process of a queue; a producer that can't have it alone sends a wake-up. */
export const lockShared = calling('pg_advisory_lock_shared')
export const unlockShared = calling('pg_advisory_unlock_shared')
