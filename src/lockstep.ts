import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type DeleteQueueOptions, deleteQueue } from './admin/delete-queue.ts'
import { act, find } from './admin/jobs.ts'
import { deleteFromMorgue, findInMorgue, requeueFromMorgue } from './admin/morgue.ts'
import type { Progression } from './admin/progression.ts'
import { pause, reshard, resume } from './admin/queues.ts'
import { type Stats, stats } from './admin/stats.ts'
import type { ProgressionOptions } from './admin/walk.ts'
import { type EnqueueOptions, Enqueuer } from './enqueue/enqueue.ts'
import type { ClientMiddleware } from './enqueue/middleware.ts'
import { OptionError } from './errors.ts'
import { checkInstrumentation, type Instrumentation } from './instrumentation.ts'
import { Instruments } from './instruments.ts'
import type { NewJob } from './job.ts'
import { consoleLogger, type Logger, unfailing } from './logger.ts'
import { optionalFunctions, rejectUnknownOptions } from './options.ts'
import {
  type ConnectionConfig,
  connectionConfig,
  connectionConfigOf,
  createPool,
} from './postgres/connection.ts'
import { Database } from './postgres/database.ts'
import { type MigrateOptions, type MigrationReport, migrate } from './postgres/migrate.ts'
import { checkSchemaName, DEFAULT_SCHEMA } from './postgres/schema-name.ts'
import { UnderWay } from './promises.ts'
import type { Queue } from './queue.ts'
import type { FoundJob, JobFilter, JobSort } from './store/jobs.ts'
import type { DeadFilter, DeadPayload, DeadSort } from './store/morgue.ts'
import type { Found, Page } from './store/page.ts'
import { listProcesses, type ProcessRow } from './store/stats.ts'
import type { WorkerOptions } from './worker/options.ts'
import { Worker } from './worker/worker.ts'

export interface LockstepOptions {
  /** Where the database is; or give a `pool`. */
  readonly connectionString?: string
  /**
   * The application's own pool, for producing and administering. Workers copy to connections of theirs where its server is and
   * what holds in its sessions: `options`, `statement_timeout`, `lock_timeout`, `idle_in_transaction_session_timeout`.
   */
  readonly pool?: pg.Pool
  /** Where the tables are. Default `lockstep`. */
  readonly schema?: string
  /** A connection string that goes around any pooler, for what a worker can't do through one. Default: the same. */
  readonly directUrl?: string
  /** Default: warnings and errors on the console. */
  readonly logger?: Logger
  /** Around every enqueue, the first outermost. Default none. */
  readonly middleware?: readonly ClientMiddleware[]
  /** Hear of what this object and its workers do, for metrics and traces. Default none. */
  readonly instrumentation?: readonly Instrumentation[]
}

const OPTIONS = ['connectionString', 'pool', 'schema', 'directUrl', 'logger', 'middleware', 'instrumentation']
const APPLICATION_NAME = 'pg-lockstep'
/** ms between looks at who still waits for a connection. */
const CLOSING_PAUSE = 5

type AnyQueue = Queue | string

/** The queues of one schema in one database: producing, working and administering start here. */
export class Lockstep {
  readonly #database: Database
  readonly #enqueuer: Enqueuer
  readonly #config: ConnectionConfig
  readonly #directConfig: ConnectionConfig
  readonly #logger: Logger
  readonly #instrumentation: readonly Instrumentation[]
  readonly #ownPool: boolean
  readonly #underWay = new UnderWay()
  #closing: Promise<void> | undefined

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
      middleware,
      instrumentation,
    } = options
    if ((connectionString === undefined) === (pool === undefined)) {
      throw new OptionError('Lockstep: give either `connectionString` or `pool`')
    }
    this.#logger = unfailing(logger)
    this.#instrumentation = checkInstrumentation(instrumentation)
    this.#ownPool = pool === undefined
    this.#config = pool
      ? connectionConfigOf(pool, APPLICATION_NAME)
      : connectionConfig(connectionString!, APPLICATION_NAME)
    this.#directConfig =
      directUrl === undefined ? this.#config : connectionConfig(directUrl, APPLICATION_NAME)
    this.#database = new Database(
      pool ?? createPool({ ...this.#config, allowExitOnIdle: true }, this.#logger),
      checkSchemaName(schema),
    )
    this.#enqueuer = new Enqueuer(
      this.#database,
      optionalFunctions(middleware, 'Lockstep: middleware'),
      new Instruments(this.#instrumentation, this.#logger),
    )
  }

  /**
   * Brings the schema up to this release; where it is, nothing is locked. Safe when several processes do so at once.
   * It never goes back: a later release's definitions are left alone, and it resolves where they serve this one too,
   * so that a process of this release may start while the next is rolled out. Sequences behind their rows are raised.
   * @throws DatabaseError `LOCKSTEP_SCHEMA_NEW` where a later release has been there that no longer serves this one,
   * `LOCKSTEP_LOCKED` where others hold locks for longer than `giveUpAfter`, `LOCKSTEP_DISTRIBUTED`; OptionError
   */
  migrate(options: MigrateOptions = {}): Promise<MigrationReport> {
    return this.#underWay.watch(migrate(this.#database, options))
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
      instrumentation: this.#instrumentation,
    })
  }

  /** How every queue stands, and all together. Counts every job: about half a second a million. */
  stats(): Promise<Stats> {
    return this.#underWay.watch(stats(this.#database))
  }

  /** The worker processes, those that died among them until another one has removed them. */
  processes(): Promise<ProcessRow[]> {
    return this.#underWay.watch(listProcesses(this.#database))
  }

  /**
   * A page of the jobs of a queue that match, waiting or in work; by `performIn` unless told otherwise. What was pushed
   * into a job in work is an entry of its own, which waits: such an id is found twice. With `ids` and without `limit`
   * the page has all that were asked for.
   * @throws OptionError, or LockstepError `LOCKSTEP_UNKNOWN_QUEUE`, as all that follow
   */
  find(queue: AnyQueue, filter: JobFilter & Page<JobSort> = {}): Promise<Found<FoundJob>> {
    return this.#underWay.watch(find(this.#database, queue, filter))
  }

  /** A page of the payloads in the morgue that match; by `diedAt` unless told otherwise. */
  findDead(queue: AnyQueue, filter: DeadFilter & Page<DeadSort> = {}): Promise<Found<DeadPayload>> {
    return this.#underWay.watch(findInMorgue(this.#database, queue, filter))
  }

  /**
   * Makes what waits due now: jobs, and of those in work what was pushed meanwhile; `{}` takes all. Does nothing until it
   * is awaited or iterated, as all that follow.
   */
  performNow(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return act('perform_now', this.#database, queue, filter, options)
  }

  /**
   * Deletes what waits, for good: jobs with their payloads, and of those in work what was pushed meanwhile; `{}` takes all.
   * What is in work is not touched. Where a process that served the queue seems dead and no worker has removed it yet,
   * this watches it for its lease first, up to 30 s, so that what it had in work waits; so do `kill` and `deleteQueue`.
   */
  delete(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return act('delete_jobs', this.#database, queue, filter, options)
  }

  /**
   * Moves the payloads of what waits to the morgue: those of jobs, and of those in work what was pushed meanwhile; `{}`
   * takes all. What is in work is not touched.
   */
  kill(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return act('kill', this.#database, queue, filter, options)
  }

  /** Moves payloads from the morgue back to their jobs, which become due now with a clean count; `{}` takes all. */
  requeue(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    return requeueFromMorgue(this.#database, queue, filter, options)
  }

  /** Deletes payloads from the morgue, for good; `{}` takes all. */
  deleteDead(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    return deleteFromMorgue(this.#database, queue, filter, options)
  }

  /**
   * Nothing of the queue is claimed until `resume`; what runs goes on, and pushes are taken. Where handlers are quick, what was
   * claimed a moment ago still begins, for 50 ms at most.
   */
  pause(queue: AnyQueue): Promise<void> {
    return this.#underWay.watch(pause(this.#database, queue))
  }

  /** Workers go on at once. */
  resume(queue: AnyQueue): Promise<void> {
    return this.#underWay.watch(resume(this.#database, queue))
  }

  /**
   * Gives a queue 1 to 16,384 shards while it is in use. Growing moves nothing; shrinking moves the jobs of the
   * shards that go. Called again with the same number, it finishes what was interrupted. A worker whose definition names
   * more shards grows the queue again at its start: to shrink it, lower the definition first.
   *
   * A producer that still counted with the old number may commit a job in a shard that is gone even after the
   * end: workers move such strays at their next comparison.
   */
  reshard(queue: AnyQueue, shards: number, options: ProgressionOptions = {}): Progression {
    return reshard(this.#database, queue, shards, options)
  }

  /**
   * Deletes a queue that is empty, and with `withJobs` one that holds waiting jobs and dead payloads: those are the
   * progress. Its counts go too. Never while a live process serves it, or has a job of it in work.
   *
   * Every push and claim, of other queues too, waits up to 150 ms while it makes sure that nobody who has seen the queue
   * can still push into it. A push that names it afterwards fails once, and the next one makes it again; so does a worker.
   * A transaction at REPEATABLE READ or above that began before the deletion must not push into the queue after it.
   * @throws LockstepError `LOCKSTEP_QUEUE_NOT_EMPTY` or `LOCKSTEP_QUEUE_IN_USE` with the counts; `LOCKSTEP_LOCKED` where
   * transactions that have pushed stay open for half a minute
   */
  deleteQueue(queue: AnyQueue, options: DeleteQueueOptions = {}): Progression {
    return deleteQueue(this.#database, queue, options)
  }

  /**
   * Waits for what is under way, however long that takes, then ends the connections of this object's own; a `pool` that was
   * given is left alone, and so are workers. From now on `enqueue` rejects with `LOCKSTEP_CLOSED`. What has a `tx` is the
   * caller's to wait for; so is what works in chunks, from `performNow` on: it stops after the chunk under way, rejects with
   * `LOCKSTEP_CLOSED`, and what has been done stays done.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#enqueuer.close()
    await this.#underWay.ended()
    if (!this.#ownPool) return
    const { pool } = this.#database
    // A pool that is ended forgets who waits for a connection: their promises would never settle.
    while (pool.waitingCount > 0) await sleep(CLOSING_PAUSE)
    await pool.end()
  }
}
