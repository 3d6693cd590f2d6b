import type pg from 'pg'
import { DatabaseError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { connect, disconnect } from '../../postgres/connection.ts'
import type { Database } from '../../postgres/database.ts'
import { hasCode, toLockstepError } from '../../postgres/failure.ts'
import { backendOf } from '../../postgres/session.ts'
import {
  type LockedTable,
  type Locking,
  lockShared,
  shardNumber,
  tryLock,
  unlock,
  unlockShared,
} from '../../store/lock.ts'
import { hasSession } from '../../store/process.ts'
import type { Service } from '../lifecycle/service.ts'
import type { ShardRef } from './splitter.ts'

/** ms. These calls never wait for a lock, so one that takes longer will never be answered. */
const CALL_TIMEOUT = 5_000

/**
 * ms without a try to lock a shard after the server had no room: each try fills the server's lock table for a moment, and
 * then other statements fail too.
 */
const FULL_PAUSE = 10_000

/**
 * The session that holds this process's advisory locks: one per shard it serves, one for itself, and a flag per queue while
 * it waits for work. If the connection breaks, the server releases all of them at once. `onLost` is then called with the
 * session, and the next call connects again.
 */
export class ShardLocks implements Service {
  readonly #config: ConnectionConfig
  readonly #schema: string
  readonly #logger: Logger
  readonly #onLost: (session: pg.Client) => void
  #session: pg.Client | undefined
  /** The same session, once its lock shows other processes whose it is. */
  #shown: pg.Client | undefined
  /** The last call. Calls run one after the other; otherwise the connection is idle. */
  #last: Promise<unknown> = Promise.resolve()
  #full: { readonly error: unknown; readonly until: number } | undefined

  constructor(
    config: ConnectionConfig,
    schema: string,
    logger: Logger,
    onLost: (session: pg.Client) => void,
  ) {
    this.#config = config
    this.#schema = schema
    this.#logger = logger
    this.#onLost = onLost
  }

  async start(): Promise<void> {
    await this.#connected()
  }

  async stop(): Promise<void> {
    await this.#last.catch(() => {})
    const session = this.#session
    this.#session = undefined
    this.#shown = undefined
    if (session) await disconnect(session)
  }

  /**
   * Locks and lease protect the rows of the database that they are in. If that were another one than the claims', they
   * would protect nothing, and the process's number there might be that of another process here.
   * @throws DatabaseError `LOCKSTEP_OTHER_DATABASE`
   */
  async requireDatabase(database: Database): Promise<void> {
    const isThere = async (session: pg.Client) => {
      const backend = backendOf(session)
      if (!backend || (await hasSession(database, backend))) return true
      // It may have ended meanwhile: then this fails.
      await session.query('')
      return false
    }
    if (await this.#call(isThere, () => this.#connected())) return
    throw new DatabaseError(
      'LOCKSTEP_OTHER_DATABASE',
      '`directUrl`, or what `createClient` returns for `direct`, leads to another server or database than the worker’s other connections: locks and lease would protect nothing; have it lead to the same database, without the pooler',
    )
  }

  /** Shows other processes that this one is there to share the work. */
  lockProcess(processId: number): Promise<boolean> {
    const work = async (session: pg.Client) => {
      const locked = (await tryLock(session, this.#schema, 'processes', [processId])).has(processId)
      if (locked) this.#shown = session
      return locked
    }
    return this.#call(work, () => this.#connected())
  }

  async unlockProcess(processId: number): Promise<void> {
    await this.#release(unlock, 'processes', [processId])
  }

  /**
   * Returns the shards that it locked; another process may have the others. Locks none in a session that has not locked the
   * process yet, such as one that has just replaced another: if that session outlived this process, no one could see whose
   * it is and end it.
   */
  async lockShards(refs: readonly ShardRef[]): Promise<ShardRef[]> {
    if (this.#full && performance.now() < this.#full.until) throw this.#full.error
    const work = async (session: pg.Client | undefined) =>
      session ? tryLock(session, this.#schema, 'jobs', refs.map(numberOf)) : new Set<number>()
    const locked = await this.#call(work, async () => this.#shown).catch((error) => {
      if (hasCode(error, 'LOCKSTEP_TOO_MANY_LOCKS'))
        this.#full = { error, until: performance.now() + FULL_PAUSE }
      throw error
    })
    return refs.filter((ref) => locked.has(numberOf(ref)))
  }

  async unlockShards(refs: readonly ShardRef[]): Promise<void> {
    await this.#release(unlock, 'jobs', refs.map(numberOf))
  }

  /** While the flag is up, producers of these queues send wake-ups. */
  async raiseFlag(queueIds: readonly number[]): Promise<void> {
    await this.#lock(lockShared, 'queues', queueIds)
  }

  async lowerFlag(queueIds: readonly number[]): Promise<void> {
    await this.#release(unlockShared, 'queues', queueIds)
  }

  #lock(lock: Locking, table: LockedTable, numbers: readonly number[]): Promise<ReadonlySet<number>> {
    return this.#call(
      (session) => lock(session, this.#schema, table, numbers),
      () => this.#connected(),
    )
  }

  /** If the session is gone, so are its locks: there is no reason to connect. */
  async #release(lock: Locking, table: LockedTable, numbers: readonly number[]): Promise<void> {
    await this.#call(
      async (session) => session && lock(session, this.#schema, table, numbers),
      async () => this.#session,
    )
  }

  #call<Session extends pg.Client | undefined, T>(
    work: (session: Session) => Promise<T>,
    sessionOf: () => Promise<Session>,
  ): Promise<T> {
    const done = this.#last
      .catch(() => {})
      .then(async () => {
        const session = await sessionOf()
        try {
          const result = await work(session)
          // The answer and the session's end may arrive together. `onLost` was then called before the caller goes on, and
          // the caller would believe for good in locks that are gone.
          if (session && this.#session !== session) throw new Error('Connection terminated after its answer')
          return result
        } catch (error) {
          if (session) this.#lose(session)
          throw toLockstepError(error)
        }
      })
    this.#last = done
    return done
  }

  async #connected(): Promise<pg.Client> {
    if (this.#session) return this.#session
    const session = await connect({ ...this.#config, query_timeout: CALL_TIMEOUT }).catch((error) => {
      throw toLockstepError(error)
    })
    session.on('error', (error) => {
      this.#logger.warn({ event: 'locks', error: error.message }, 'the lock connection broke')
      this.#lose(session)
    })
    session.on('end', () => this.#lose(session))
    this.#session = session
    return session
  }

  #lose(session: pg.Client): void {
    if (this.#session !== session) return
    this.#session = undefined
    this.#shown = undefined
    void disconnect(session)
    this.#onLost(session)
  }
}

function numberOf({ queueId, shard }: ShardRef): number {
  return shardNumber(queueId, shard)
}
