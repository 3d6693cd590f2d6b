import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { EnqueueTransaction } from './adapters/enqueue-transaction.ts'
import {
  type ActorOptions,
  Audit,
  type AuditOptions,
  checkActor,
  type Deed,
  listActions,
} from './admin/audit.ts'
import { type DeleteQueueOptions, deleteQueue } from './admin/delete-queue.ts'
import { Insight } from './admin/insight.ts'
import { act, find } from './admin/jobs.ts'
import { deleteFromMorgue, findInMorgue, requeueFromMorgue } from './admin/morgue.ts'
import { ask } from './admin/processes.ts'
import type { Progression } from './admin/progression.ts'
import { pause, reshard, resume } from './admin/queues.ts'
import { type Stats, stats } from './admin/stats.ts'
import type { ProgressionOptions } from './admin/walk.ts'
import { type EnqueueOptions, Enqueuer } from './enqueue/enqueue.ts'
import { type Entered, enter, type Purpose } from './enqueue/entered.ts'
import { KnownHome } from './enqueue/known-home.ts'
import type { ClientMiddleware } from './enqueue/middleware.ts'
import { OptionError } from './errors.ts'
import { checkInstrumentation, type Instrumentation } from './instrumentation.ts'
import { Instruments } from './instruments.ts'
import type { NewJob } from './job.ts'
import type { Json } from './json.ts'
import { checkLogger, consoleLogger, type Logger, unfailing } from './logger.ts'
import { optionalFunctions, rejectUnknownOptions, show, trueOrFalse } from './options.ts'
import { refuseBinary } from './postgres/binary.ts'
import type { ConnectionConfig } from './postgres/client.ts'
import { checkConnectionString, connectionConfig, isPool } from './postgres/connection.ts'
import { type CreateClient, checkCreateClient, createdConfig } from './postgres/create-client.ts'
import { Database } from './postgres/database.ts'
import type { MigrateOptions, MigrationReport } from './postgres/migrate.ts'
import { createPool } from './postgres/pool.ts'
import { connectionConfigOf } from './postgres/pool-options.ts'
import { checkSchemaName, DEFAULT_SCHEMA } from './postgres/schema-name.ts'
import { UnderWay } from './promises.ts'
import type { Queue } from './queue.ts'
import type { AuditEntry } from './store/audit.ts'
import type { FoundJob, JobFilter, JobSort } from './store/jobs.ts'
import type { DeadFilter, DeadPayload, DeadSort } from './store/morgue.ts'
import type { Found, Page } from './store/page.ts'
import { listProcesses, type ProcessRow } from './store/process-list.ts'
import { readSnapshotAge } from './store/snapshot.ts'
import type { WorkerHome, WorkerOptions } from './worker/options.ts'
import { Worker } from './worker/worker.ts'

export interface LockstepOptions {
  /** The database to connect to. Give either this or a `pool`. */
  readonly connectionString?: string | undefined
  /**
   * The application's own pool, for producing and administering. Workers open their own connections with its options, also
   * if these have functions: a `password` that is fetched for each connection, a `stream`, `ssl.checkServerIdentity`, a
   * `Client` class. They do not have those of the pool itself (`max`, `onConnect`, …), and `connectionTimeoutMillis` is 10 s
   * at least. One with the driver's `binary` is refused.
   */
  readonly pool?: pg.Pool
  /** The schema that holds the tables. Default `lockstep`. */
  readonly schema?: string
  /** A connection string that bypasses any pooler, for what a worker can't do through one. Default: the same connection. */
  readonly directUrl?: string | undefined
  /**
   * Creates the client of every connection that a worker opens, for drivers and logins that a pool's options don't say; or
   * the URL of a module whose default export does. Give either this or `directUrl`.
   *
   * With a function, a worker renews its lease in the main thread: a handler that blocks the event loop for longer than the
   * lease loses it, and others may perform its ids meanwhile. A module is loaded by the lease's thread, too, and avoids that.
   * Default: the pool's options, or the connection string.
   * @throws OptionError at the worker's start, if it returns anything but a new client; DatabaseError `LOCKSTEP_CONNECTION`
   * if it throws
   */
  readonly createClient?: CreateClient | URL | undefined
  /** Default: logs warnings and errors to the console. */
  readonly logger?: Logger
  /** Wraps every enqueue, the first one outermost. Default none. */
  readonly middleware?: readonly ClientMiddleware[]
  /** Observes what this object and its workers do, for metrics and traces. Default none. */
  readonly instrumentation?: readonly Instrumentation[]
}

export interface LookOptions {
  /** Looks in this transaction, at what only that sees, too; any that `enqueue` takes. Default: at what is committed. */
  readonly tx?: EnqueueTransaction
}

export interface FindOptions extends LookOptions {
  /** Whether what is found has its last failed `attempts`, which may be long. Default false. */
  readonly attempts?: boolean
}

const OPTIONS = [
  'connectionString',
  'pool',
  'schema',
  'directUrl',
  'createClient',
  'logger',
  'middleware',
  'instrumentation',
]
const APPLICATION_NAME = 'pg-lockstep'
/** ms between checks whether calls still wait for a connection. */
const CLOSING_PAUSE = 5

type AnyQueue = Queue | string

/** Where its workers work. */
export let homeOf: (lockstep: Lockstep) => WorkerHome
/** A transaction of the caller's, once it is known to be one of the Lockstep's database. */
export let enterIn: (lockstep: Lockstep, tx: LookOptions['tx'], purpose: Purpose) => Promise<Entered>

/** What its web page shows beyond its public methods, and its logger. */
export let insightOf: (lockstep: Lockstep) => { readonly insight: Insight; readonly logger: Logger }

/** The queues of one schema in one database: the starting point to produce, work and administer. */
export class Lockstep {
  readonly #database: Database
  readonly #home: KnownHome
  readonly #enqueuer: Enqueuer
  readonly #audit: Audit
  /** Undefined with a pool of the application's. */
  readonly #config: ConnectionConfig | undefined
  readonly #directConfig: ConnectionConfig | undefined
  readonly #createClient: CreateClient | URL | undefined
  readonly #logger: Logger
  readonly #instrumentation: readonly Instrumentation[]
  readonly #instruments: Instruments
  readonly #ownPool: boolean
  readonly #underWay = new UnderWay()
  #closing: Promise<void> | undefined

  /**
   * Connects on first use.
   * @throws OptionError
   */
  constructor(options: LockstepOptions) {
    rejectUnknownOptions(options, OPTIONS, 'Lockstep')
    const {
      connectionString,
      pool,
      directUrl,
      createClient,
      schema = DEFAULT_SCHEMA,
      logger = consoleLogger,
      middleware,
      instrumentation,
    } = options
    if ((connectionString === undefined) === (pool === undefined)) {
      throw new OptionError('Lockstep: give either `connectionString` or `pool`')
    }
    this.#logger = unfailing(checkLogger(logger, 'Lockstep: logger'))
    this.#instrumentation = checkInstrumentation(instrumentation)
    this.#ownPool = pool === undefined
    if (pool !== undefined && !isPool(pool))
      throw new OptionError(`Lockstep: pool must be a Pool of \`pg\`, not ${show(pool)}`)
    refuseBinary(pool)
    const configOf = (url: string | undefined, name: string) =>
      url === undefined
        ? undefined
        : connectionConfig(checkConnectionString(url, `Lockstep: ${name}`), APPLICATION_NAME)
    this.#config = configOf(connectionString, 'connectionString')
    this.#directConfig = configOf(directUrl, 'directUrl')
    if (directUrl !== undefined && createClient !== undefined)
      throw new OptionError('Lockstep: give either `directUrl` or `createClient`')
    this.#createClient = createClient === undefined ? undefined : checkCreateClient(createClient)
    this.#database = new Database(pool ?? createPool(this.#config!, this.#logger), checkSchemaName(schema))
    this.#instruments = new Instruments(this.#instrumentation, this.#logger)
    this.#audit = new Audit(this.#database, this.#logger)
    this.#home = new KnownHome(this.#database)
    this.#enqueuer = new Enqueuer(
      this.#database,
      this.#home,
      optionalFunctions(middleware, 'Lockstep: middleware'),
      this.#instruments,
    )
    this.#instruments.tell('open', { lockstep: this })
  }

  /**
   * Brings the schema up to this release; if it is up to date, locks nothing. Several processes may call it at once.
   * It never downgrades: it leaves a later release's definitions alone, and resolves if they serve this release too, so
   * that a process of this release can start while the next one is rolled out. Raises sequences that are behind their rows.
   * @throws DatabaseError `LOCKSTEP_SCHEMA_NEW` if a later release has migrated and no longer serves this one,
   * `LOCKSTEP_SCHEMA_FOREIGN` if something else in the schema has one of our names, `LOCKSTEP_LOCKED` if others hold locks
   * for longer than `giveUpAfter`, `LOCKSTEP_DISTRIBUTED`; OptionError
   */
  migrate(options: MigrateOptions = {}): Promise<MigrationReport> {
    // Few processes need it.
    const loading = import('./postgres/migrate.ts')
    return this.#underWay.watch(loading.then(({ migrate }) => migrate(this.#database, options)))
  }

  /**
   * Pushes one job or many, all or none, and resolves to how many were stored. With `tx`, they exist if and only if
   * that transaction commits.
   * @throws JobError naming the bad job and field; DatabaseError
   */
  enqueue<P, Handed>(
    queue: Queue<P, Handed>,
    jobs: NewJob<NoInfer<P>> | Iterable<NewJob<NoInfer<P>>>,
    options: EnqueueOptions = {},
  ): Promise<number> {
    return this.#enqueuer.enqueue(queue, jobs, options)
  }

  /**
   * Creates a worker, which takes jobs from its `start()` on.
   * @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE`
   */
  createWorker(options: WorkerOptions): Worker {
    return new Worker(options, homeOf(this))
  }

  static {
    homeOf = (lockstep) => {
      return {
        ...lockstep.#workerConfigs(),
        schema: lockstep.#database.schema,
        logger: lockstep.#logger,
        instrumentation: lockstep.#instrumentation,
      }
    }
    insightOf = (lockstep) => ({
      insight: new Insight(lockstep.#database, (call) => lockstep.#underWay.watch(call)),
      logger: lockstep.#logger,
    })
    enterIn = (lockstep, tx, purpose) => enter(tx, purpose, lockstep.#database, lockstep.#home)
  }

  /**
   * The state of every queue, and the totals. Counts every job, which takes about 0.3 s per million. Every few
   * seconds, workers store how many rounds they have processed.
   */
  async stats(options: LookOptions = {}): Promise<Stats> {
    return this.#look(options, 'stats', stats)
  }

  /**
   * ms since the beginning of the oldest transaction whose snapshot, or writes, keep the server from removing dead rows in
   * this database; 0 if none does. Replication slots aren't looked at, and of other roles' sessions a role sees nothing
   * unless it is a member of `pg_read_all_stats`.
   */
  snapshotAge(): Promise<number> {
    return this.#underWay.watch(readSnapshotAge(this.#database))
  }

  /** The worker processes, and what they do; including dead ones that no other process has removed yet. */
  processes(): Promise<ProcessRow[]> {
    return this.#underWay.watch(listProcesses(this.#database))
  }

  /**
   * Asks a worker process, wherever it runs, to take nothing new and to let others take its shards. There is no way back.
   * Resolves when that is stored; the process follows within moments, `processes()` shows when, and its worker emits
   * `requested`. A process whose lease was lost meanwhile has another number. One of an older release does not follow. Takes
   * the right to change the table of processes, as its owner has it.
   *
   * Resolves to true; to false if the process is `overdue`: it may be dead, and follows only if it goes on.
   * @throws LockstepError `LOCKSTEP_UNKNOWN_PROCESS`, OptionError
   */
  async quiet(processId: number, options: ActorOptions = {}): Promise<boolean> {
    return this.#steer('quiet', processId, options)
  }

  /**
   * Asks a worker process to stop, as `quiet` asks. `lockstep work` ends, as by SIGTERM, and its supervisor starts no other
   * process in its place. A worker of an application stops as by its own `stop()`; the application goes on.
   * @throws LockstepError `LOCKSTEP_UNKNOWN_PROCESS`, OptionError
   */
  async stop(processId: number, options: ActorOptions = {}): Promise<boolean> {
    return this.#steer('stop', processId, options)
  }

  /**
   * A page of the matching jobs of a queue, waiting or in work; sorted by `performIn` by default. What was pushed into a
   * job in work is a separate waiting entry, so such an id is found twice. With `ids` and without `limit`, the page has
   * all jobs with these ids.
   * @throws OptionError, or LockstepError `LOCKSTEP_UNKNOWN_QUEUE`, like all methods below
   */
  async find<P = unknown, Handed = unknown>(
    queue: Queue<P, Handed> | string,
    filter: JobFilter & Page<JobSort> = {},
    options: FindOptions = {},
  ): Promise<Found<FoundJob<Json<P>>>> {
    const attempts = attemptsOf(options, 'find')
    const found = this.#look(
      options,
      'find',
      (database) => find(database, queue as AnyQueue, filter, attempts),
      ['attempts'],
    )
    return found as Promise<Found<FoundJob<Json<P>>>>
  }

  /** A page of the matching payloads in the morgue; sorted by `diedAt` by default. */
  async findDead<P = unknown, Handed = unknown>(
    queue: Queue<P, Handed> | string,
    filter: DeadFilter & Page<DeadSort> = {},
    options: FindOptions = {},
  ): Promise<Found<DeadPayload<Json<P>>>> {
    const attempts = attemptsOf(options, 'findDead')
    const look = (database: Database) => findInMorgue(database, queue as AnyQueue, filter, attempts)
    return this.#look(options, 'findDead', look, ['attempts']) as Promise<Found<DeadPayload<Json<P>>>>
  }

  /**
   * Makes waiting jobs due now, and what was pushed into jobs in work; `{}` matches all. Does nothing until it is awaited
   * or iterated, like all methods below that return a Progression.
   */
  performNow(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    const work = act('perform_now', this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'performNow', queue, details: filter, by: options.by }, work)
  }

  /**
   * Deletes waiting jobs with their payloads, for good, and what was pushed into jobs in work; `{}` matches all. Leaves
   * jobs in work alone. If a process that served the queue seems dead and no worker has removed it yet, this first watches
   * it for its lease, up to 30 s, so that its jobs in work wait again. So do `kill` and `deleteQueue`.
   */
  delete(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    const work = act('delete_jobs', this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'delete', queue, details: filter, by: options.by }, work)
  }

  /**
   * Moves the payloads of waiting jobs to the morgue, and those pushed into jobs in work; `{}` matches all. Leaves jobs in
   * work alone.
   */
  kill(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    const work = act('kill', this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'kill', queue, details: filter, by: options.by }, work)
  }

  /** Moves payloads from the morgue back to their jobs, which become due now with a reset retry count; `{}` matches all. */
  requeue(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    const work = requeueFromMorgue(this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'requeue', queue, details: filter, by: options.by }, work)
  }

  /** Deletes payloads from the morgue, for good; `{}` matches all. */
  deleteDead(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    const work = deleteFromMorgue(this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'deleteDead', queue, details: filter, by: options.by }, work)
  }

  /**
   * Workers claim no jobs of the queue until `resume`. Running jobs go on, and pushes are accepted. If handlers are quick,
   * jobs claimed a moment ago still start, for at most 50 ms; in transactional queues, until the handlers' connections are
   * ready.
   */
  async pause(queue: AnyQueue, options: ActorOptions = {}): Promise<void> {
    return this.#record({ action: 'pause', queue, details: {} }, options, () => pause(this.#database, queue))
  }

  /** Lets workers go on with a paused queue, at once. */
  async resume(queue: AnyQueue, options: ActorOptions = {}): Promise<void> {
    return this.#record({ action: 'resume', queue, details: {} }, options, () =>
      resume(this.#database, queue),
    )
  }

  /**
   * Gives a queue 1 to 16,384 shards while it is in use. Growing moves no jobs; shrinking moves those of the removed
   * shards. After an interruption, call it again with the same number to finish. A worker whose definition names more
   * shards grows the queue again when it starts, so lower the definition before you shrink the queue.
   *
   * A producer that still used the old number may commit a job in a removed shard even after this ends. Workers move such
   * strays at their next comparison.
   */
  reshard(queue: AnyQueue, shards: number, options: ProgressionOptions = {}): Progression {
    const work = reshard(this.#database, queue, shards, options)
    return this.#audit.follow({ action: 'reshard', queue, details: { shards }, by: options.by }, work)
  }

  /**
   * Deletes an empty queue and its counts. With `withJobs`, also deletes its waiting jobs and dead payloads, which the
   * progress counts. Never deletes a queue while a live process serves it or has a job of it in work.
   *
   * Every push and claim, even of other queues, waits up to 150 ms while this ensures that no transaction that has seen the
   * queue can still push into it. Later, the first push by a process that knew the queue fails with `LOCKSTEP_CONFLICT`,
   * and its next one creates the queue again; so does a worker, but not the SQL function. A transaction at REPEATABLE READ
   * or above that began before the deletion must not push into it later.
   * @throws LockstepError `LOCKSTEP_QUEUE_NOT_EMPTY` or `LOCKSTEP_QUEUE_IN_USE` with the counts; `LOCKSTEP_LOCKED` if
   * transactions that have pushed stay open for 30 s
   */
  deleteQueue(queue: AnyQueue, options: DeleteQueueOptions = {}): Progression {
    const work = deleteQueue(this.#database, queue, options)
    const { by, withJobs = false } = options
    return this.#audit.follow({ action: 'deleteQueue', queue, details: { withJobs }, by }, work)
  }

  /**
   * What people did who were named with `by`, the newest first. Entries are kept for 90 days, 100,000 at most; workers delete
   * others.
   * @throws OptionError
   */
  async audit(options: AuditOptions = {}): Promise<AuditEntry[]> {
    return this.#underWay.watch(listActions(this.#database, options))
  }

  /**
   * Waits for calls under way, however long they take, then ends this object's own connections. It leaves workers and a
   * given `pool` alone. From now on, `enqueue` rejects with `LOCKSTEP_CLOSED`. The caller must wait for calls with a `tx`,
   * and for methods that work in chunks, from `performNow` on: those stop after the chunk under way and reject with
   * `LOCKSTEP_CLOSED`; what they have done stays done.
   */
  close(): Promise<void> {
    if (!this.#closing) this.#instruments.tell('close', { lockstep: this })
    this.#closing ??= this.#close()
    return this.#closing
  }

  #steer(action: 'quiet' | 'stop', processId: number, options: ActorOptions): Promise<boolean> {
    const deed = { action, queue: null, details: { processId } }
    return this.#record(deed, options, () => ask(this.#database, processId, action))
  }

  #record<T>(deed: Omit<Deed, 'by'>, options: ActorOptions, act: () => Promise<T>): Promise<T> {
    const { action } = deed
    rejectUnknownOptions(options, ['by'], action)
    const { by } = options
    checkActor(by, action)
    return this.#underWay.watch(this.#audit.record({ ...deed, by }, act))
  }

  #look<T>(
    options: LookOptions,
    what: string,
    work: (database: Database) => Promise<T>,
    more: readonly string[] = [],
  ): Promise<T> {
    rejectUnknownOptions(options, ['tx', ...more], what)
    const looking = async () =>
      work('tx' in options ? (await enterIn(this, options.tx, 'look')).database : this.#database)
    return this.#underWay.watch(looking())
  }

  #workerConfigs(): Pick<WorkerHome, 'config' | 'directConfig'> {
    const create = this.#createClient
    if (create) {
      const configFor = (direct: boolean) => createdConfig(create, { direct }, APPLICATION_NAME)
      return { config: configFor(false), directConfig: configFor(true) }
    }
    const config = this.#config ?? connectionConfigOf(this.#database.pool, APPLICATION_NAME)
    return { config, directConfig: this.#directConfig ?? config }
  }

  async #close(): Promise<void> {
    await this.#enqueuer.close()
    await this.#underWay.ended()
    if (!this.#ownPool) return
    const { pool } = this.#database
    // An ended pool forgets calls that wait for a connection, so their promises would never settle.
    while (pool.waitingCount > 0) await sleep(CLOSING_PAUSE)
    await pool.end()
  }
}

function attemptsOf({ attempts = false }: FindOptions, what: string): boolean {
  return trueOrFalse(attempts, `${what}: attempts`)
}
