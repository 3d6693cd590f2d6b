import type { Logger } from '../logger.ts'
import type { Database } from '../postgres/database.ts'

interface Session {
  readonly pid: number
  readonly processId: number
}

/**
 * A process that was stopped, or whose network was cut, may keep its session and with it its shards for as long
 * as it likes: nobody would serve them. Whoever sees the session of an ended lease twice in a row ends it; once
 * may be a process that is just becoming somebody new. The one that comes back finds its locks lost.
 */
export class FrozenProcesses {
  readonly #database: Database
  readonly #logger: Logger
  #seen = new Set<number>()

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  async end(): Promise<void> {
    const sessions = await this.#find()
    const again = sessions.filter(({ pid }) => this.#seen.has(pid))
    this.#seen = new Set(sessions.map(({ pid }) => pid))
    for (const { pid, processId } of again) {
      this.#logger.warn(
        { processId, pid },
        'a process outlived its lease: ending the session that has its shards',
      )
      await this.#database
        .query('SELECT pg_terminate_backend($1)', [pid])
        .catch((error: Error) =>
          this.#logger.warn({ error: error.message, pid }, 'ending the session failed'),
        )
    }
  }

  /** Sessions with the lock of a process whose lease has ended, and of none whose lease runs. */
  #find(): Promise<Session[]> {
    const { prefix } = this.#database
    return this.#database.query<Session>(
      `SELECT l.pid, min(l.objid::bigint) AS "processId"
       FROM pg_locks l LEFT JOIN ${prefix}.processes p
         ON p.process_id::oid = l.objid AND p.expires_at > clock_timestamp()
       WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
         AND l.classid = '${prefix}.processes'::regclass
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       GROUP BY l.pid HAVING count(p.process_id) = 0`,
    )
  }
}
