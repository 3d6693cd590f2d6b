import pg from 'pg'
import { type EnqueueOptions, Enqueuer } from './enqueue/enqueue.ts'
import type { ClientMiddleware } from './enqueue/middleware.ts'
import { OptionError } from './errors.ts'
import type { NewJob } from './job.ts'
import { consoleLogger, type Logger } from './logger.ts'
import { rejectUnknownOptions } from './options.ts'
import { type ConnectionConfig, connectionConfig, connectionConfigOf } from './postgres/connection.ts'
import { Database } from './postgres/database.ts'
import { type MigrationReport, migrate } from './postgres/migrate.ts'
import { checkSchemaName, DEFAULT_SCHEMA } from './postgres/schema-name.ts'
import type { Queue } from './queue.ts'
import type { WorkerOptions } from './worker/options.ts'
import { Worker } from './worker/worker.ts'

export interface LockstepOptions {
  /** Where the database is; or give a `pool`. */
  readonly connectionString?: string
  /** The application's own pool, for producing and administering. Workers copy its settings to connections of theirs. */
  readonly pool?: pg.Pool
  /** Where the tables are. Default `lockstep`. */
  readonly schema?: string
  /** A connection string that goes around any pooler, for what a worker can't do through one. Default: the same. */
  readonly directUrl?: string
  /** Default: warnings and errors on the console. */
  readonly logger?: Logger
  /** Around every enqueue, the first outermost. Default none. */
  readonly middleware?: readonly ClientMiddleware[]
}

const OPTIONS = ['connectionString', 'pool', 'schema', 'directUrl', 'logger', 'middleware']
const APPLICATION_NAME = 'pg-lockstep'

/** The queues of one schema in one database: producing, working and administering start here. */
export class Lockstep {
  readonly #database: Database
  readonly #enqueuer: Enqueuer
  readonly #config: ConnectionConfig
  readonly #directConfig: ConnectionConfig
  readonly #logger: Logger
  readonly #ownPool: boolean

  /**
   * Connects when it is first used.
   * @throws OptionError
   */
  constructor(options: LockstepOptions) {
    rejectUnknownOptions(options, OPTIONS, 'Lockstep')
    const {
      connectionString,
      pool,
      directUrl,
      schema = DEFAULT_SCHEMA,
      logger = consoleLogger,
      middleware = [],
    } = options
    if ((connectionString === undefined) === (pool === undefined)) {
      throw new OptionError('Lockstep: give either `connectionString` or `pool`')
    }
    this.#logger = logger
    this.#ownPool = pool === undefined
    this.#config = pool
      ? connectionConfigOf(pool, APPLICATION_NAME)
      : connectionConfig(connectionString!, APPLICATION_NAME)
    this.#directConfig =
      directUrl === undefined ? this.#config : connectionConfig(directUrl, APPLICATION_NAME)
    this.#database = new Database(pool ?? this.#createPool(), checkSchemaName(schema))
    this.#enqueuer = new Enqueuer(this.#database, middleware)
  }

  /**
   * Brings the schema up to this release. Safe when several processes do so at once.
   * @throws DatabaseError `LOCKSTEP_SCHEMA_NEW` where a later release has been there
   */
  migrate(): Promise<MigrationReport> {
    return migrate(this.#database)
  }

  /**
   * Pushes one job or many, all or none, and returns how many were stored. With `tx` they exist if and only if
   * that transaction commits.
   * @throws JobError naming the bad job and field; DatabaseError
   */
  enqueue<P>(
    queue: Queue<P>,
    jobs: NewJob<P> | Iterable<NewJob<P>>,
    options: EnqueueOptions = {},
  ): Promise<number> {
    return this.#enqueuer.enqueue(queue, jobs, options)
  }

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  createWorker(options: WorkerOptions): Worker {
    return new Worker(options, {
      config: this.#config,
      directConfig: this.#directConfig,
      schema: this.#database.schema,
      logger: this.#logger,
    })
  }

  /** Ends the connections of this object's own; a `pool` that was given is left alone, and so are workers. */
  async close(): Promise<void> {
    if (this.#ownPool) await this.#database.pool.end()
  }

  #createPool(): pg.Pool {
    const pool = new pg.Pool({ ...this.#config, allowExitOnIdle: true })
    pool.on('error', (error) => this.#logger.warn({ error: error.message }, 'an idle connection broke'))
    return pool
  }
}
