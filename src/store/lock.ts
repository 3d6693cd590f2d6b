import type pg from 'pg'
import { quoteIdentifier } from '../postgres/schema-name.ts'
import { TYPES } from '../postgres/types.ts'
import { MAX_SHARDS } from '../queue.ts'

/**
 * Session advisory locks. Their key is a table and a number in it, which is unique in the database, so that two schemas
 * never conflict. The number of a shard has room for all shards that a queue may have.
 */
export type LockedTable = 'jobs' | 'processes' | 'queues'

export function shardNumber(queueId: number, shard: number): number {
  return (queueId * MAX_SHARDS + shard) | 0
}

type Session = Pick<pg.ClientBase, 'query'>

/** Resolves to the numbers for which it succeeded. */
export type Locking = (
  session: Session,
  schema: string,
  table: LockedTable,
  numbers: readonly number[],
) => Promise<ReadonlySet<number>>

/** The query has no limit or condition, so that the function is called exactly once per row. */
function calling(lock: string): Locking {
  return async (session, schema, table, numbers) => {
    const { rows } = await session.query({
      text: `SELECT number, ${lock}($1::regclass::oid::integer, number) AS done FROM unnest($2::integer[]) AS number`,
      values: [`${quoteIdentifier(schema)}.${table}`, numbers],
      types: TYPES,
    })
    return new Set(rows.filter(({ done }) => done === true).map(({ number }) => number))
  }
}

export const tryLock = calling('pg_try_advisory_lock')
export const unlock = calling('pg_advisory_unlock')

/** Every waiting process of a queue holds it. A producer that can't get it exclusively sends a wake-up. */
export const lockShared = calling('pg_advisory_lock_shared')
export const unlockShared = calling('pg_advisory_unlock_shared')
