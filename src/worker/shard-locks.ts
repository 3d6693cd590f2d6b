import type pg from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { type ConnectionConfig, connect } from '../postgres/connection.ts'
import { toLockstepError } from '../postgres/failure.ts'
import { lockShared, shardNumber, tryLock, unlock, unlockShared } from '../store/lock.ts'
import type { Service } from './service.ts'
import type { ShardRef } from './splitter.ts'

/** ms; nobody ever waits for these locks, so a call that takes longer will never be answered. */
const CALL_TIMEOUT = 5_000

/**
 * The session that holds this process's advisory locks: one per shard it serves, one for itself, and a flag per
 * queue while it waits for work. When the connection breaks, the server lets go of all of them at once; `onLost`
 * is told, and the next call connects again.
 */
export class ShardLocks implements Service {
  readonly #config: ConnectionConfig
  readonly #schema: string
  readonly #logger: Logger
  readonly #onLost: () => void
  #session: pg.Client | undefined
  /** Calls go one after the other: the connection is otherwise idle. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(config: ConnectionConfig, schema: string, logger: Logger, onLost: () => void) {
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
    await session?.end().catch(() => {})
  }

  /** Shows the other processes that this one is there to share the work with. */
  lockProcess(processId: number): Promise<boolean> {
    return this.#call((session) => tryLock(session, this.#schema, 'processes', processId))
  }

  async unlockProcess(processId: number): Promise<void> {
    await this.#release((session) => unlock(session, this.#schema, 'processes', processId))
  }

  /** False where another process has the shard. */
  lockShard({ queueId, shard }: ShardRef): Promise<boolean> {
    return this.#call((session) => tryLock(session, this.#schema, 'jobs', shardNumber(queueId, shard)))
  }

  async unlockShard({ queueId, shard }: ShardRef): Promise<void> {
    await this.#release((session) => unlock(session, this.#schema, 'jobs', shardNumber(queueId, shard)))
  }

  /** While the flag is up, producers of the queue send wake-ups. */
  async raiseFlag(queueId: number): Promise<void> {
    await this.#call((session) => lockShared(session, this.#schema, 'queues', queueId))
  }

  async lowerFlag(queueId: number): Promise<void> {
    await this.#release((session) => unlockShared(session, this.#schema, 'queues', queueId))
  }

  /** Without the session its locks are gone anyway: no reason to connect. */
  async #release(work: (session: pg.Client) => Promise<boolean>): Promise<void> {
    await this.#last.catch(() => {})
    if (this.#session) await this.#call(work)
  }

  #call<T>(work: (session: pg.Client) => Promise<T>): Promise<T> {
    const done = this.#last
      .catch(() => {})
      .then(async () => {
        const session = await this.#connected()
        try {
          return await work(session)
        } catch (error) {
          this.#lose(session)
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
    await refusePooled(session)
    this.#session = session
    return session
  }

  #lose(session: pg.Client): void {
    if (this.#session !== session) return
    this.#session = undefined
    session.end().catch(() => {})
    this.#onLost()
  }
}

/**
 * A pooler hands out a backend key of its own, so the process id the client was told differs from the server's.
 * Session locks taken through one would belong to whoever comes next.
 */
async function refusePooled(session: pg.Client): Promise<void> {
  const { rows } = await session.query('SELECT pg_backend_pid() AS pid')
  const { processID } = session as pg.Client & { processID: number | null }
  if (rows[0].pid === processID) return
  await session.end()
  throw new DatabaseError(
    'LOCKSTEP_POOLED',
    'the connection goes through a pooler, but locks, lease and wake-up need a session of their own: name a direct connection in `directUrl`',
  )
}
