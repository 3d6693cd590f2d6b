import type pg from 'pg'
import type { Logger } from '../../logger.ts'
import { type ConnectionConfig, connect } from '../../postgres/connection.ts'
import { hasCode, toLockstepError } from '../../postgres/failure.ts'
import {
  type LockedTable,
  type Locking,
  lockShared,
  shardNumber,
  tryLock,
  unlock,
  unlockShared,
} from '../../store/lock.ts'
import type { Service } from '../lifecycle/service.ts'
import type { ShardRef } from './splitter.ts'

/** ms; nobody ever waits for these locks, so a call that takes longer will never be answered. */
const CALL_TIMEOUT = 5_000

/**
 * ms that no shard is tried to be locked after the server had no room: each try fills its table of locks for a moment, and
 * others' statements fail then too.
 */
const FULL_PAUSE = 10_000

/**
 * The session that holds this process's advisory locks: one per shard it serves, one for itself, and a flag per
 * queue while it waits for work. When the connection breaks, the server lets go of all of them at once; `onLost`
 * is told which it was, and the next call connects again.
 */
export class ShardLocks implements Service {
  readonly #config: ConnectionConfig
  readonly #schema: string
  readonly #logger: Logger
  readonly #onLost: (session: pg.Client) => void
  #session: pg.Client | undefined
  /** The same, once it has shown the other processes whose it is. */
  #shown: pg.Client | undefined
  /** Calls go one after the other: the connection is otherwise idle. */
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
    await session?.end().catch(() => {})
  }

  /** Shows the other processes that this one is there to share the work with. */
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
   * Those that it got: another process may have some. None in a session that has not locked the process yet, such as one
   * that has just replaced another: where it outlived this process, nobody would see whose it is, and end it.
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

  /** Without the session its locks are gone anyway: no reason to connect. */
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
          // The answer and the session's end may come in one piece: then `onLost` was told before who asked goes on, who would
          // believe for good what was locked a moment ago.
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
      this.#logger.warn({ error: error.message }, 'the lock connection broke')
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
    session.end().catch(() => {})
    this.#onLost(session)
  }
}

function numberOf({ queueId, shard }: ShardRef): number {
  return shardNumber(queueId, shard)
}
