import type pg from 'pg'

/**
 * Whose statements run in a session of a worker: its own alone, or those of handlers too, for whom the time-outs that a
 * role or database has by default are meant.
 */
export type SessionUse = 'own' | 'lent'

/** What a session turned out to be. */
export interface Session {
  /**
   * Whether a pooler may hand it to others between two transactions: then nothing is set in it, since it would be set
   * for them too, and still be when the worker is gone. What a transaction needs is set in that transaction.
   */
  readonly shared: boolean
  /** Of a transaction that begins without naming its level, such as `read committed`. */
  readonly isolation: string
}

/** A session as the server knows it: the number of its process is given out again some day, but not for the same time. */
export interface Backend {
  readonly pid: number
  /** s since 1970, with all its decimals. */
  readonly startedAt: string
}

interface Found extends Backend {
  readonly version: number
  readonly isolation: string
  /** `synchronous_commit`. */
  readonly commit: string
}

/**
 * For sessions that are ours alone.
 *
 * - READ COMMITTED, whatever the default is: the protocol's reasoning rests on it.
 * - TCP settings by which a dead peer is noticed within some ten seconds, on both ends of the wire.
 * - No end for being idle: with the session its locks would go, and with them all shards. Being idle in a transaction ends
 *   it: then this process stands still, or its connection is silent, and others wait for its rows.
 */
const SETTINGS = [
  'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED',
  'SET tcp_keepalives_idle = 3',
  'SET tcp_keepalives_interval = 2',
  'SET tcp_keepalives_count = 3',
  'SET tcp_user_timeout = 9000',
  'SET idle_session_timeout = 0',
]

/**
 * Commits that a crash of the server doesn't forget, though the default be `off`, or become it while the session lasts. Else
 * others could take what a process believes its own, since a claim, or the renewal of a lease, has vanished. `local` and
 * `remote_write` survive that too, and stay: what they risk is a failover.
 */
function durably(commit: string): string {
  return `SET synchronous_commit = ${commit === 'off' ? 'on' : commit}`
}

/**
 * ms that a transaction in which no handler runs may idle, far more than a process that lives ever needs. Where its host has
 * vanished, and a proxy on the way goes on answering for it, the server would keep its rows for good.
 */
export const IDLE_TIMEOUT = 60_000

/**
 * Where no handler runs, no time-outs of the server's: calls have some of ours, after which their connection goes. One that
 * is made for the application's statements would have a look at all shards fail each time, or cost the locks.
 */
const OWN_SETTINGS = [
  'SET statement_timeout = 0',
  'SET lock_timeout = 0',
  `SET idle_in_transaction_session_timeout = ${IDLE_TIMEOUT}`,
]
/** Since Postgres 17. */
const TRANSACTION_TIMEOUT = 'SET transaction_timeout = 0'
const POSTGRES_17 = 170_000

/** Lets the server notice a vanished client in the middle of a long statement; not on every platform. */
const CHECKING = 'SET client_connection_check_interval = 5000'

/** What others' statements can leave in a session, but for prepared statements, which the driver relies on. */
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

/** By client, of sessions that are ours alone. */
const renewals = new WeakMap<object, string>()
const backends = new WeakMap<object, Backend>()

/** Of a session, in what `pg_stat_get_activity` returns. */
export const STARTED_AT = 'extract(epoch FROM backend_start)::text'

type Client = Pick<pg.ClientBase, 'query'> & { readonly processID?: number | null }

/**
 * Finds out whether a session is ours alone, and makes it ready where it is. `callTimeout`: ms that each statement may take; a
 * connection that has just gone silent never answers. Default: that of the connection.
 *
 * A pooler tells the client a process id of its own, or none, where the server tells that of the session. Where one keeps the
 * session for this client until it goes, nothing would have to be spared: it is all the same, since that can't be seen. A
 * pooler that told the server's own process id could not be seen at all.
 */
export async function prepareSession(
  client: Client,
  use: SessionUse,
  callTimeout?: number,
): Promise<Session> {
  const timing = { query_timeout: callTimeout }
  const ask = (text: string) => client.query({ text, ...timing })
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

/** The session of a client; none where it is shared with others. */
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
 * Statements after which a session is as it was when it was new, in a transaction of their own; none for a session that we
 * share with others, through a pooler: what is set there is theirs.
 */
export function renewalOf(client: object): string {
  const renewal = renewals.get(client)
  return renewal ? `BEGIN; ${renewal}; COMMIT;` : ''
}
