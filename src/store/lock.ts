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

/** One scalar call a lock: a lock function over many rows may be called for more rows than it returns. */
async function callLock(session: Session, schema: string, lock: string, table: LockedTable, number: number) {
  const regclass = `${quoteIdentifier(schema)}.${table}`
  const { rows } = await session.query(`SELECT ${lock}($1::regclass::oid::integer, $2) AS done`, [
    regclass,
    number,
  ])
  return rows[0].done === true
}

export function tryLock(
  session: Session,
  schema: string,
  table: LockedTable,
  number: number,
): Promise<boolean> {
  return callLock(session, schema, 'pg_try_advisory_lock', table, number)
}

export function unlock(
  session: Session,
  schema: string,
  table: LockedTable,
  number: number,
): Promise<boolean> {
  return callLock(session, schema, 'pg_advisory_unlock', table, number)
}

/** Held by every waiting process of a queue; a producer that can't have it alone sends a wake-up. */
export function lockShared(
  session: Session,
  schema: string,
  table: LockedTable,
  number: number,
): Promise<boolean> {
  return callLock(session, schema, 'pg_advisory_lock_shared', table, number)
}

export function unlockShared(
  session: Session,
  schema: string,
  table: LockedTable,
  number: number,
): Promise<boolean> {
  return callLock(session, schema, 'pg_advisory_unlock_shared', table, number)
}
