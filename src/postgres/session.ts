import type pg from 'pg'
import { TYPES } from './types.ts'

/**
 * Whose statements run in a worker's session: only its own, or also those of handlers, for which the default time-outs of
 * the role or database are meant.
 */
export type SessionUse = 'own' | 'lent'

/** The findings about a session. */
export interface Session {
  /**
   * Whether a pooler may hand the session to others between two transactions. If so, we set nothing in it: a setting would
   * affect them too, even after the worker is gone. Each transaction sets what it needs for itself.
   */
  readonly shared: boolean
  /** The default level of a transaction, such as `read committed`. */
  readonly isolation: string
}

/** Identifies a session at the server: the process id may be reused, but never with the same start time. */
export interface Backend {
  readonly pid: number
  /** s since 1970, with all decimals. */
  readonly startedAt: string
}

interface Found extends Backend {
  readonly version: number
  readonly isolation: string
  /** `synchronous_commit`. */
  readonly commit: string
}

/**
 * ms that a transaction without a handler may be idle, far more than a live process ever needs. If its host vanishes while a
 * proxy on the way keeps answering for it, the server would otherwise keep it, and the rows that it has locked, for good.
 */
export const IDLE_TIMEOUT = 60_000

/**
 * The same for a pool's session, which holds nothing. It's longer, since a handler may keep its process from reading that
 * sessions have ended, and the next call would be sent in vain.
 */
const IDLE_SESSION_TIMEOUT = 600_000

/** For a session outside any pool: if the server ended it, its locks would go, and with them all shards. */
export const NEVER_IDLE = 'SET idle_session_timeout = 0'

/**
 * For sessions that only we use.
 *
 * - READ COMMITTED, whatever the default is: the protocol depends on it.
 * - TCP settings that detect a dead peer within about ten seconds, on both ends of the connection.
 * - An end for sessions that idle much longer than a pool keeps them: its connection went silent before the pool closed it.
 *   So does a session that is idle in a transaction: its process stalls, or its connection is silent, and others wait for its
 *   rows.
 */
const SETTINGS = [
  'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED',
  'SET tcp_keepalives_idle = 3',
  'SET tcp_keepalives_interval = 2',
  'SET tcp_keepalives_count = 3',
  'SET tcp_user_timeout = 9000',
  `SET idle_session_timeout = ${IDLE_SESSION_TIMEOUT}`,
]

/**
 * Makes commits survive a crash of the server, even if the default is `off`, or becomes so during the session. Otherwise a
 * claim or the renewal of a lease could vanish, and others could take what a process believes is its own. `local` and
 * `remote_write` survive a crash too, and stay: they are unsafe only in a failover.
 */
function durably(commit: string): string {
  return `SET synchronous_commit = ${commit === 'off' ? 'on' : commit}`
}

/**
 * Without handlers, server time-outs are off: calls have our own, which end the connection. A time-out that suits the
 * application's statements would make every look at all shards fail, or cost the locks.
 */
const OWN_SETTINGS = [
  'SET statement_timeout = 0',
  'SET lock_timeout = 0',
  `SET idle_in_transaction_session_timeout = ${IDLE_TIMEOUT}`,
]
/** Since Postgres 17. */
const TRANSACTION_TIMEOUT = 'SET transaction_timeout = 0'
const POSTGRES_17 = 170_000

/** Lets the server notice a vanished client during a long statement; not available on every platform. */
const CHECKING = 'SET client_connection_check_interval = 5000'

/** Resets what others' statements can leave in a session, except prepared statements, which the driver relies on. */
const RESETS = [
  'RESET SESSION AUTHORIZATION',
  'RESET ROLE',
  'RESET ALL',
  'CLOSE ALL',
  'UNLISTEN *',
  'DISCARD TEMP',
  'DISCARD SEQUENCES',
  'SELECT pg_catalog.pg_advisory_unlock_all()',
]

/** By client, for sessions that only we use. */
const renewals = new WeakMap<object, string>()
const backends = new WeakMap<object, Backend>()

/** The start of a session, for the columns of `pg_stat_get_activity`. */
export const STARTED_AT = 'extract(epoch FROM backend_start)::text'

type Client = Pick<pg.ClientBase, 'query'> & { readonly processID?: number | null }

/**
 * Finds out whether only we use a session, and if so, makes it ready. `callTimeout`: ms that each statement may take,
 * since a connection that has just gone silent never answers. Default: that of the connection.
 *
 * The server sends the client the process id of the session; a pooler sends its own, or none. A pooler that keeps a session
 * for one client would need no care, but we can't see that, so it counts as shared too. A pooler that sent the server's
 * process id could not be detected at all.
 */
export async function prepareSession(
  client: Client,
  use: SessionUse,
  callTimeout?: number,
): Promise<Session> {
  const asking = { types: TYPES, query_timeout: callTimeout }
  const ask = (text: string) => client.query({ text, ...asking })
  const { rows } = await ask(
    `SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.current_setting('server_version_num')::integer AS version,
       pg_catalog.current_setting('transaction_isolation') AS isolation,
       pg_catalog.current_setting('synchronous_commit') AS commit,
       (SELECT ${STARTED_AT} FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())) AS "startedAt"`,
  )
  const found = rows[0] as Found
  const { pid, startedAt, isolation } = found
  const shared = pid !== client.processID
  if (!shared) {
    backends.set(client, { pid, startedAt })
    await makeReady(client, ask, settingsFor(use, found))
  }
  return { shared, isolation }
}

/** The session of a client; undefined if others may share it. */
export function backendOf(client: object): Backend | undefined {
  return backends.get(client)
}

function settingsFor(use: SessionUse, { version, commit }: Found): string[] {
  const settings = [...SETTINGS, durably(commit)]
  if (use === 'lent') return settings
  return [...settings, ...OWN_SETTINGS, ...(version >= POSTGRES_17 ? [TRANSACTION_TIMEOUT] : [])]
}

async function makeReady(
  client: Client,
  ask: (text: string) => Promise<unknown>,
  settings: readonly string[],
): Promise<void> {
  await ask(settings.join('; '))
  const checks = await ask(CHECKING).catch(() => {})
  renewals.set(client, [...RESETS, ...settings, ...(checks ? [CHECKING] : [])].join('; '))
}

/**
 * Statements that reset a session to its initial state, in their own transaction. Empty for a session that we share with
 * others through a pooler, whose settings are not ours.
 */
export function renewalOf(client: object): string {
  const renewal = renewals.get(client)
  return renewal ? `BEGIN; ${renewal}; COMMIT;` : ''
}
