import { randomUUID } from 'node:crypto'
import type { Database } from '../postgres/database.ts'
import { runThrough, type Through } from './through.ts'

/** Distinguishes a schema from one of the same name in another database. */
export interface Home {
  /** Drawn when the schema is created; copies keep it. */
  readonly installation: string
  readonly database: string
  /** For people: the server's own address, which may differ from the one that clients use. */
  readonly address: string
}

export async function findHome(database: Database): Promise<Home> {
  const [home] = await database.query<Home>(
    `SELECT ${database.prefix}.installation()::text AS installation, current_database()::text AS database,
       coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket') AS address`,
  )
  return home!
}

export function isSameHome(one: Home, other: Home): boolean {
  return one.installation === other.installation && one.database === other.database
}

/**
 * Goes on only in an open transaction, which may be READ ONLY: the server refuses this statement elsewhere, with 25P01. The
 * lock is the one that every look at the queues takes anyway.
 */
export async function requireOpen({ prefix }: Database, on: Through): Promise<void> {
  await runThrough(on, `LOCK TABLE ${prefix}.queues IN ACCESS SHARE MODE`)
}

/**
 * The database that `on` is in, if that is one of this server and its session may be seen. A failed transaction answers
 * nothing any more, but its session shows what it was asked.
 */
export async function findBeside(database: Database, on: Through): Promise<string | undefined> {
  const mark = randomUUID()
  await runThrough(on, `SELECT '${mark}' AS where_is_this`).catch(() => {})
  const [found] = await database.query<{ name: string }>(
    'SELECT datname::text AS name FROM pg_catalog.pg_stat_activity WHERE pg_catalog.strpos(query, $1) > 0',
    [mark],
  )
  return found?.name
}
