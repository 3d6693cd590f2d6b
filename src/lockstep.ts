import { Administration } from './admin/administration.ts'
import type { ActorOptions, AuditOptions } from './admin/audit.ts'
import type { DeleteQueueOptions } from './admin/delete-queue.ts'
import { type FindOptions, type LookOptions, Looks } from './admin/looks.ts'
import type { Progression } from './admin/progression.ts'
import type { Stats } from './admin/stats.ts'
import type { TenantsOptions } from './admin/tenants.ts'
import type { CreatedToken, NewToken } from './admin/tokens.ts'
import type { ProgressionOptions } from './admin/walk.ts'
import { Consumer } from './consumer/consumer.ts'
import type { ConsumerOptions } from './consumer/options.ts'
import { type EnqueueOptions, Enqueuer, type PushedForResult } from './enqueue/enqueue.ts'
import type { Entered, Purpose } from './enqueue/entered.ts'
import type { ClientMiddleware } from './enqueue/middleware.ts'
import type { PushedOnce } from './enqueue/once.ts'
import { type JobResult, type ResultOptions, Results, toJobResult } from './enqueue/results.ts'
import { checkInstrumentation, type Instrumentation } from './instrumentation.ts'
import { Instruments } from './instruments.ts'
import type { NewJob } from './job.ts'
import type { Json } from './json.ts'
import { JsonText } from './json-text.ts'
import { checkLogger, consoleLogger, type Logger, unfailing } from './logger.ts'
import { optionalFunctions, rejectUnknownOptions } from './options.ts'
import { ACCESS_OPTIONS, Access, type AccessOptions } from './postgres/access.ts'
import type { Database } from './postgres/database.ts'
import type { MigrateOptions, MigrationReport } from './postgres/migrate.ts'
import { UnderWay } from './promises.ts'
import type { Queue } from './queue.ts'
import type { AuditEntry } from './store/audit.ts'
import type { FoundJob, JobFilter, JobSort } from './store/jobs.ts'
import type { IdempotencyKey } from './store/keys.ts'
import type { DeadFilter, DeadPayload, DeadSort } from './store/morgue.ts'
import type { Found, Page } from './store/page.ts'
import type { ProcessRow } from './store/process-list.ts'
import { type Quota, takeQuota } from './store/quota.ts'
import type { TenantList } from './store/tenant-list.ts'
import type { ApiToken, TokenGrant, TokenRate } from './token.ts'
import type { WorkerHome, WorkerOptions } from './worker/options.ts'
import { Worker } from './worker/worker.ts'

export interface LockstepOptions extends AccessOptions {
  /** Default: logs warnings and errors to the console. */
  readonly logger?: Logger
  /** Wraps every enqueue, the first one outermost. Default none. */
  readonly middleware?: readonly ClientMiddleware[]
  /** Observes what this object and its workers do, for metrics and traces. Default none. */
  readonly instrumentation?: readonly Instrumentation[]
}

const OPTIONS = [...ACCESS_OPTIONS, 'logger', 'middleware', 'instrumentation']

type AnyQueue = Queue | string

/** Where its workers work. */
export let homeOf: (lockstep: Lockstep) => WorkerHome
/** A transaction of the caller's, once it is known to be one of the Lockstep's database. */
export let enterIn: (lockstep: Lockstep, tx: LookOptions['tx'], purpose: Purpose) => Promise<Entered>
/** What its web page needs beyond its public methods. `watch` keeps `close()` waiting for a call. */
export let insideOf: (lockstep: Lockstep) => {
  readonly database: Database
  readonly logger: Logger
  readonly watch: <T>(call: Promise<T>) => Promise<T>
}

/** What its HTTP API needs beyond that: payloads as JsonText, and pushes that wait for nobody long, or name an idempotency key. */
export let servedBy: (lockstep: Lockstep) => {
  /** `define`: makes the definition of a queue that is only named. */
  createConsumer(options: ConsumerOptions, define: (name: string) => Queue): Consumer
  createResults(): Results
  enqueueInTime(queue: Queue, jobs: readonly NewJob[]): Promise<number>
  enqueueForResultInTime(queue: Queue, job: NewJob): Promise<PushedForResult>
  enqueueOnce(queue: Queue, jobs: readonly NewJob[], key: IdempotencyKey): Promise<PushedOnce>
  /** What tokens allow, by their digests in hexadecimal; without those that do not exist. */
  findTokens(digests: readonly Buffer[]): Promise<ReadonlyMap<string, TokenGrant>>
  /** Takes up to `wanted` of the requests that a token may make. */
  takeRequests(digest: Buffer, rate: TokenRate, wanted: number): Promise<Quota>
}

/** The queues of one schema in one database: the starting point to produce, work and administer. */
export class Lockstep {
  readonly #access: Access
  readonly #database: Database
  readonly #enqueuer: Enqueuer
  readonly #results: Results
  readonly #looks: Looks
  readonly #administration: Administration
  readonly #logger: Logger
  readonly #instruments: Instruments
  readonly #underWay = new UnderWay()
  #closing: Promise<void> | undefined

  /**
   * Connects on first use.
   * @throws OptionError
   */
  constructor(options: LockstepOptions) {
    rejectUnknownOptions(options, OPTIONS, 'Lockstep')
    const { logger = consoleLogger, middleware, instrumentation } = options
    this.#logger = unfailing(checkLogger(logger, 'Lockstep: logger'))
    this.#instruments = new Instruments(checkInstrumentation(instrumentation), this.#logger)
    this.#access = new Access(options, this.#logger)
    this.#database = this.#access.database
    const chain = optionalFunctions(middleware, 'Lockstep: middleware')
    this.#enqueuer = new Enqueuer(this.#database, chain, this.#instruments, this.#logger)
    this.#results = new Results(this.#database)
    this.#looks = new Looks(this.#database, async (tx) => (await this.#enqueuer.enter(tx, 'look')).database)
    this.#administration = new Administration(this.#database, this.#logger)
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
   * Pushes one job like `enqueue`, and resolves to its id and the round that takes its payload. Ask `result` with both, once the
   * transaction has committed; the queue's definition says how long results are kept (`keepResult`).
   * @throws as `enqueue`; LockstepError `LOCKSTEP_DROPPED` if a middleware drops the job
   */
  enqueueForResult<P, Handed>(
    queue: Queue<P, Handed>,
    job: NewJob<NoInfer<P>>,
    options: EnqueueOptions = {},
  ): Promise<PushedForResult> {
    return this.#enqueuer.enqueueForResult(queue, job, options)
  }

  /**
   * What has become of a push of `enqueueForResult`: what its handler returned, or the error that it died of. With `wait`, resolves
   * when it's over, or with its state when the time is over. Of a round that took only a part of what was there (`maxPayloads`,
   * `maxBytes`), no result is kept: the one that takes the last of it has it.
   * @throws OptionError; LockstepError `LOCKSTEP_UNKNOWN_QUEUE`; DatabaseError; the reason of `signal`
   */
  async result<Result = unknown>(
    queue: AnyQueue,
    id: string,
    round: string,
    options: ResultOptions = {},
  ): Promise<JobResult<Result>> {
    const row = await this.#underWay.watch(this.#results.find(queue, id, round, options))
    return toJobResult(row) as JobResult<Result>
  }

  /**
   * Creates a worker, which takes jobs from its `start()` on.
   * @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE`
   */
  createWorker(options: WorkerOptions): Worker {
    return new Worker(options, homeOf(this))
  }

  /**
   * Creates a consumer, which claims jobs without a handler. It connects on first use, like a worker, with the rights of one.
   * @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE`
   */
  createConsumer(options: ConsumerOptions = {}): Consumer {
    return new Consumer(options, homeOf(this))
  }

  static {
    homeOf = (lockstep) => ({
      ...lockstep.#access.workerConfigs(),
      schema: lockstep.#database.schema,
      logger: lockstep.#logger,
      instrumentation: lockstep.#instruments.all,
    })
    insideOf = (lockstep) => ({
      database: lockstep.#database,
      logger: lockstep.#logger,
      watch: (call) => lockstep.#underWay.watch(call),
    })
    servedBy = (lockstep) => ({
      createConsumer: (options, define) =>
        new Consumer(options, homeOf(lockstep), (json) => new JsonText(json), define),
      createResults: () => new Results(lockstep.#database),
      enqueueInTime: (queue, jobs) => lockstep.#enqueuer.enqueueInTime(queue, jobs),
      enqueueForResultInTime: (queue, job) => lockstep.#enqueuer.enqueueForResult(queue, job, {}, true),
      enqueueOnce: (queue, jobs, key) => lockstep.#enqueuer.enqueueOnce(queue, jobs, key),
      findTokens: (digests) =>
        lockstep.#underWay.watch(
          import('./store/tokens.ts').then((store) => store.findTokens(lockstep.#database, digests)),
        ),
      takeRequests: (digest, { requests: most, per }, wanted) =>
        lockstep.#underWay.watch(takeQuota(lockstep.#database, digest, { most, per }, wanted)),
    })
    enterIn = (lockstep, tx, purpose) => lockstep.#enqueuer.enter(tx, purpose)
  }

  /**
   * The state of every queue, and the totals. Counts every job, which takes about 0.3 s per million. Every few
   * seconds, workers store how many rounds they have processed.
   */
  stats(options: LookOptions = {}): Promise<Stats> {
    return this.#underWay.watch(this.#looks.stats(options))
  }

  /**
   * ms since the beginning of the oldest transaction whose snapshot, or writes, keep the server from removing dead rows in
   * this database; 0 if none does. Replication slots aren't looked at, and of other roles' sessions a role sees nothing
   * unless it is a member of `pg_read_all_stats`.
   */
  snapshotAge(): Promise<number> {
    const reading = import('./store/snapshot.ts').then((store) => store.readSnapshotAge(this.#database))
    return this.#underWay.watch(reading)
  }

  /** The worker processes, and what they do; including dead ones that no other process has removed yet. */
  processes(): Promise<ProcessRow[]> {
    const listing = import('./store/process-list.ts').then((store) => store.listProcesses(this.#database))
    return this.#underWay.watch(listing)
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
  quiet(processId: number, options: ActorOptions = {}): Promise<boolean> {
    return this.#underWay.watch(this.#administration.ask(processId, 'quiet', options))
  }

  /**
   * Asks a worker process to stop, as `quiet` asks. `lockstep work` ends, as by SIGTERM, and its supervisor starts no other
   * process in its place. A worker of an application stops as by its own `stop()`; the application goes on.
   * @throws LockstepError `LOCKSTEP_UNKNOWN_PROCESS`, OptionError
   */
  stop(processId: number, options: ActorOptions = {}): Promise<boolean> {
    return this.#underWay.watch(this.#administration.ask(processId, 'stop', options))
  }

  /**
   * A page of the matching jobs of a queue, waiting or in work; sorted by `performIn` by default. What was pushed into a
   * job in work is a separate waiting entry, so such an id is found twice. With `ids` and without `limit`, the page has
   * all jobs with these ids.
   * @throws OptionError, or LockstepError `LOCKSTEP_UNKNOWN_QUEUE`, like all methods below
   */
  find<P = unknown, Handed = unknown>(
    queue: Queue<P, Handed> | string,
    filter: JobFilter & Page<JobSort> = {},
    options: FindOptions = {},
  ): Promise<Found<FoundJob<Json<P>>>> {
    return this.#underWay.watch(this.#looks.find<P>(queue as AnyQueue, filter, options))
  }

  /**
   * A page of the tenants of a queue, those for whom most waits first: what waits and is in work, the lag, and what the rules
   * of the queue say of each. Counts all jobs of the queue, as `stats` does, and the pushes that its rules look at.
   */
  tenants(queue: AnyQueue, options: TenantsOptions = {}): Promise<TenantList> {
    return this.#underWay.watch(this.#looks.tenants(queue, options))
  }

  /** A page of the matching payloads in the morgue; sorted by `diedAt` by default. */
  findDead<P = unknown, Handed = unknown>(
    queue: Queue<P, Handed> | string,
    filter: DeadFilter & Page<DeadSort> = {},
    options: FindOptions = {},
  ): Promise<Found<DeadPayload<Json<P>>>> {
    return this.#underWay.watch(this.#looks.findDead<P>(queue as AnyQueue, filter, options))
  }

  /**
   * Makes waiting jobs due now, and what was pushed into jobs in work; `{}` matches all. Does nothing until it is awaited
   * or iterated, like all methods below that return a Progression. What open transactions hold comes last, and is waited for.
   * @throws DatabaseError `LOCKSTEP_LOCKED`, like them, if it is held for five seconds more: all else is done
   */
  performNow(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return this.#administration.act('perform_now', queue, filter, options)
  }

  /**
   * Deletes waiting jobs with their payloads, for good, and what was pushed into jobs in work; `{}` matches all. Leaves
   * jobs in work alone. If a process that served the queue seems dead and no worker has removed it yet, this first watches
   * it for its lease, up to 30 s, so that its jobs in work wait again. So do `kill` and `deleteQueue`.
   */
  delete(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return this.#administration.act('delete_jobs', queue, filter, options)
  }

  /**
   * Moves the payloads of waiting jobs to the morgue, and those pushed into jobs in work; `{}` matches all. Leaves jobs in
   * work alone.
   */
  kill(queue: AnyQueue, filter: JobFilter, options: ProgressionOptions = {}): Progression {
    return this.#administration.act('kill', queue, filter, options)
  }

  /** Moves payloads from the morgue back to their jobs, which become due now with a reset retry count; `{}` matches all. */
  requeue(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    return this.#administration.requeue(queue, filter, options)
  }

  /** Deletes payloads from the morgue, for good; `{}` matches all. */
  deleteDead(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions = {}): Progression {
    return this.#administration.deleteDead(queue, filter, options)
  }

  /**
   * Workers claim no jobs of the queue until `resume`. Running jobs go on, and pushes are accepted. If handlers are quick,
   * jobs claimed a moment ago still start, for at most 50 ms; in transactional queues, until the handlers' connections are
   * ready.
   */
  pause(queue: AnyQueue, options: ActorOptions = {}): Promise<void> {
    return this.#underWay.watch(this.#administration.pause(queue, options))
  }

  /** Lets workers go on with a paused queue, at once. */
  resume(queue: AnyQueue, options: ActorOptions = {}): Promise<void> {
    return this.#underWay.watch(this.#administration.resume(queue, options))
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
    return this.#administration.reshard(queue, shards, options)
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
   * transactions that have pushed stay open for 30 s, or hold jobs of it for five
   */
  deleteQueue(queue: AnyQueue, options: DeleteQueueOptions = {}): Progression {
    return this.#administration.deleteQueue(queue, options)
  }

  /**
   * Creates a token for the HTTP API. Takes the rights of the schema's owner, as `deleteToken` does.
   * @throws OptionError; LockstepError `LOCKSTEP_TOKEN_EXISTS`, `LOCKSTEP_BAD_QUEUE`
   */
  createToken(options: NewToken): Promise<CreatedToken> {
    return this.#underWay.watch(this.#administration.createToken(options))
  }

  /** The tokens of the HTTP API, by name. */
  tokens(): Promise<ApiToken[]> {
    return this.#underWay.watch(import('./admin/tokens.ts').then((admin) => admin.listTokens(this.#database)))
  }

  /**
   * Deletes a token of the HTTP API by its name. Every process that serves the API refuses it within a second.
   * @throws OptionError; LockstepError `LOCKSTEP_UNKNOWN_TOKEN`
   */
  deleteToken(name: string, options: ActorOptions = {}): Promise<void> {
    return this.#underWay.watch(this.#administration.deleteToken(name, options))
  }

  /**
   * What people did who were named with `by`, the newest first. Entries are kept for 90 days, 100,000 at most; workers delete
   * others.
   * @throws OptionError
   */
  audit(options: AuditOptions = {}): Promise<AuditEntry[]> {
    return this.#underWay.watch(this.#administration.audit(options))
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

  async #close(): Promise<void> {
    this.#results.close()
    await this.#enqueuer.close()
    await this.#underWay.ended()
    await this.#access.close()
  }
}
