import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { hasCode, mayLive } from '../../postgres/failure.ts'
import { type Backend, backendOf } from '../../postgres/session.ts'
import { endIdle } from '../../store/process.ts'

/**
 * Sessions at the server whose connections this process has given up. A connection that went silent tells the server
 * nothing. If something on the way keeps answering for us (a proxy, a balancer), the server's session lives on, with the
 * locks of our shards or with a transaction that holds rows. So it is ended through another connection.
 */
export class StrandedSessions {
  readonly #database: Database
  readonly #logger: Logger
  #backends: Backend[] = []
  #ending: Promise<void> | undefined
  /** Whether the last try failed. */
  #failing = false

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  /** Whether any are left to be ended. */
  get pending(): boolean {
    return this.#backends.length > 0
  }

  /**
   * Ends the session of a client that is no longer used. A session that a pooler shares with others is left to the pooler.
   */
  add(client: object): void {
    const backend = backendOf(client)
    if (!backend) return
    this.#backends.push(backend)
    void this.end()
  }

  /** Tries again for those that are left, at each comparison. Resolves when calls under way were answered, too. */
  async end(): Promise<void> {
    if (this.#backends.length > 0) {
      this.#ending ??= this.#end().finally(() => {
        this.#ending = undefined
      })
    }
    return this.#ending
  }

  async #end(): Promise<void> {
    const backends = this.#backends
    this.#backends = []
    await this.#try(backends)
  }

  /** Whatever fails, such as a login, is tried again: they may hold rows until they end. */
  async #try(backends: readonly Backend[]): Promise<void> {
    try {
      const found = await endIdle(this.#database, backends)
      this.#failing = false
      const hidden = found.filter((one) => one.hidden)
      if (hidden.length > 0)
        this.#giveUp(hidden, "it belongs to a role whose sessions the worker's can't see")
      this.#backends.push(...found.filter((one) => !one.hidden))
      const pids = found.filter(({ ended }) => ended).map(({ pid }) => pid)
      if (pids.length > 0)
        this.#logger.info({ pids }, 'ending the sessions of connections that were given up')
    } catch (thrown) {
      const error = thrown as Error
      const mayNot = hasCode(error, 'LOCKSTEP_PERMISSION') && mayLive(error)
      if (!mayNot) this.#failed(backends, error)
      // One that we may not end keeps no others from being ended.
      else if (backends.length > 1) for (const backend of backends) await this.#try([backend])
      else this.#giveUp(backends, error.message)
    }
  }

  #failed(backends: readonly Backend[], { message: error }: Error): void {
    this.#backends.push(...backends)
    const pids = backends.map(({ pid }) => pid)
    if (!this.#failing)
      this.#logger.warn({ error, pids }, 'ending the sessions of connections that were given up failed')
    this.#failing = true
  }

  #giveUp(backends: readonly Backend[], error: string): void {
    const pids = backends.map(({ pid }) => pid)
    this.#logger.warn({ error, pids }, 'the session of a connection that was given up can’t be ended')
  }
}
