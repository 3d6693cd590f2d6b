import { hostname } from 'node:os'
import pg from 'pg'
import type { Logger } from '../logger.ts'
import { type ConnectionConfig, prepareSession } from '../postgres/connection.ts'
import { Database } from '../postgres/database.ts'
import { isConnectionFailure } from '../postgres/failure.ts'
import { requireMigrated } from '../postgres/migrate.ts'
import { type Claim, claim, type Round } from '../store/claim.ts'
import { setQuiet } from '../store/process.ts'
import { ensureQueue, listQueues } from '../store/queue.ts'
import { DEAL, type Message, notify } from '../store/wake.ts'
import { VERSION } from '../version.ts'
import { type BatchSettings, GivenBack, workOff } from './batch.ts'
import { Dealer } from './dealer.ts'
import { WorkerEmitter } from './events.ts'
import { giveBackRounds } from './give-back.ts'
import { Identity } from './identity.ts'
import { Lookout } from './lookout.ts'
import { Observer } from './observer.ts'
import { type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import { Running, type RunningBatch, type SlotReport } from './running.ts'
import { ServerClock } from './server-clock.ts'
import type { Service } from './service.ts'
import { type Claimant, Settlements } from './settlements.ts'
import { ShardLocks } from './shard-locks.ts'
import { Slot } from './slot.ts'
import { Tally } from './tally.ts'
import { type Lane, type ServedQueue, Timetable } from './timetable.ts'
import { WakeUp } from './wake-up.ts'

/** ms a call to the database may take before its connection counts as broken. */
const CALL_TIMEOUT = 10_000
/** ms for handlers to end once their signals are aborted, and for outcomes still to be stored. */
const GRACE = 5_000
const MAX_LOCK_TIMEOUT = 500
/** ms that giving back at the very end may take: the lease of a process that is gone frees its jobs anyway. */
const GIVE_BACK_TIMEOUT = 5_000

/** Where and how a worker reaches the database. */
export interface WorkerHome {
  readonly config: ConnectionConfig
  /** For what needs a session of its own: locks, lease and wake-up. */
  readonly directConfig: ConnectionConfig
  readonly schema: string
  readonly logger: Logger
}

type State = 'new' | 'running' | 'quiet' | 'stopping' | 'stopped'

/** Works off queues in this process. Made by `lockstep.createWorker()`. */
export class Worker extends WorkerEmitter {
  readonly #settings: WorkerSettings
  readonly #home: WorkerHome
  readonly #clock = new ServerClock()
  readonly #timetable = new Timetable(this.#clock)
  readonly #running: Running
  /** Whose the batches in work are. */
  readonly #claimants = new Map<RunningBatch, Claimant>()
  readonly #identity: Identity
  readonly #database: Database
  readonly #locks: ShardLocks
  readonly #wakeUp: WakeUp
  readonly #tally: Tally
  readonly #settlements: Settlements
  #served: readonly ServedQueue[] = []
  #slots: readonly Slot[] = []
  #batchSettings: BatchSettings | undefined
  #dealer: Dealer | undefined
  #lookout: Lookout | undefined
  #state: State = 'new'
  #stopped: Promise<boolean> | undefined

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  constructor(options: WorkerOptions, home: WorkerHome) {
    super()
    this.#settings = workerSettings(options)
    this.#home = home
    const { config, directConfig, schema, logger } = home
    this.#running = new Running((count) => {
      this.#identity.working = count
    })
    this.#identity = new Identity(this.#leaseOptions(), this.#running, logger)
    this.#database = new Database(this.#createPool(config), schema, CALL_TIMEOUT)
    this.#locks = new ShardLocks(directConfig, schema, logger, () => this.#locksLost())
    this.#wakeUp = new WakeUp(directConfig, schema, logger, (message) => this.#hear(message))
    this.#tally = new Tally(this.#database)
    const observer = new Observer(this, this.#tally, this.#identity)
    this.#settlements = new Settlements(this.#database, this.#timetable, logger, observer)
  }

  /** This worker in the table of processes. */
  get processId(): number {
    return this.#identity.processId
  }

  /**
   * Registers the process, takes its shards and begins to work.
   * @throws DatabaseError where the database is out of reach, not migrated, read-only or behind a pooler
   */
  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('a worker starts once: create another one')
    this.#state = 'running'
    try {
      await requireMigrated(this.#database)
      this.#served = await this.#serveQueues()
      this.#batchSettings = await this.#readBatchSettings()
      await this.#startServices()
    } catch (error) {
      this.#state = 'stopping'
      await this.#stopServices()
      this.#state = 'stopped'
      throw error
    }
  }

  /** Takes nothing new and lets others have the shards; what runs goes on. There is no way back. */
  async quiet(): Promise<void> {
    if (this.#state !== 'running') return
    this.#state = 'quiet'
    await setQuiet(this.#database, this.processId).catch(() => {})
    await this.#dealer?.quiet().catch(() => {})
    await notify(this.#database, DEAL).catch(() => {})
  }

  /**
   * Takes nothing new and lets running handlers finish. After `shutdownTimeout` their signals are aborted and what
   * has not ended is given back, its numbers unchanged.
   *
   * Resolves to false where a handler ignores its signal. Its jobs stay claimed until it ends, or until the lease
   * does after this process has: two handlers of one id would be worse.
   */
  stop(): Promise<boolean> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  /**
   * Gives back what still runs after `stop()` resolved to false, its numbers unchanged, and returns whether that
   * was done within `timeout` ms. It blocks, so that no handler goes on beside its successor: end the process at
   * once, without awaiting anything.
   */
  giveBack(timeout = GIVE_BACK_TIMEOUT): boolean {
    if (this.#claimants.size === 0) return true
    const { config, schema } = this.#home
    const held = [...this.#claimants].map(([{ rounds }, { processId, served }]) => ({
      processId,
      queueId: served.queueId,
      rounds,
    }))
    return giveBackRounds({ config, schema, held }, timeout)
  }

  /** What every slot is doing, since when. */
  report(): SlotReport[] {
    return this.#running.report()
  }

  async #stop(): Promise<boolean> {
    if (this.#state === 'new' || this.#state === 'stopped') return true
    await this.quiet()
    this.#state = 'stopping'
    this.#identity.settleDown()
    const slots = Promise.all(this.#slots.map((slot) => slot.stop()))
    if (!(await this.#running.none(this.#settings.shutdownTimeout))) {
      this.#running.abortAll(new GivenBack('the worker stops'))
      if (!(await this.#running.none(GRACE))) {
        void slots.then(() => this.#stopServices())
        return false
      }
    }
    await slots
    await this.#stopServices()
    this.#state = 'stopped'
    return true
  }

  async #startServices(): Promise<void> {
    const services: Service[] = [this.#locks, this.#identity, this.#wakeUp]
    for (const service of services) await service.start()
    this.#lookout = this.#createLookout()
    this.#dealer = this.#createDealer()
    await this.#dealer.start()
    this.#slots = Array.from({ length: this.#settings.slots }, (_, index) => this.#createSlot(index))
    for (const service of [this.#lookout, this.#settlements, this.#tally, ...this.#slots])
      await service.start()
    await notify(this.#database, DEAL)
  }

  /** The identity goes last but for the connections: until then the claims are ours to settle. */
  async #stopServices(): Promise<void> {
    await this.#settlements.drain(GRACE)
    const services = [
      this.#lookout,
      this.#dealer,
      this.#wakeUp,
      this.#settlements,
      this.#tally,
      this.#identity,
      this.#locks,
    ]
    for (const service of services) {
      await service
        ?.stop()
        .catch((error: Error) => this.#home.logger.warn({ error: error.message }, 'stopping failed'))
    }
    await this.#database.pool.end()
  }

  async #serveQueues(): Promise<ServedQueue[]> {
    const served: ServedQueue[] = []
    for (const queue of this.#settings.queues) {
      served.push({ queue, queueId: await ensureQueue(this.#database, queue.name, queue.shards) })
    }
    for (const { name, shards } of await listQueues(
      this.#database,
      this.#settings.queues.map(({ name }) => name),
    )) {
      const defined = this.#settings.queues.find((queue) => queue.name === name)!.shards
      if (defined === shards) continue
      this.#home.logger.warn(
        { queue: name, shards, defined },
        'the queue has other shards than its definition: see `reshard`',
      )
    }
    return served
  }

  /** Below the server's deadlock_timeout: in a deadlock it is always we who give way, never the application. */
  async #readBatchSettings(): Promise<BatchSettings> {
    const [row] = await this.#database.query<{ timeout: number }>(
      "SELECT extract(epoch FROM current_setting('deadlock_timeout')::interval)::float8 * 1000 AS timeout",
    )
    const lockTimeout = Math.max(1, Math.min(MAX_LOCK_TIMEOUT, Math.floor(row!.timeout / 2)))
    return {
      database: this.#database,
      middleware: this.#settings.middleware,
      logger: this.#home.logger,
      lockTimeout,
    }
  }

  /** The claim counts as a round from before it is sent: whom its rows belong to does not retire meanwhile. */
  async #serve(lane: Lane, slot: Slot): Promise<void> {
    const { processId } = this
    this.#identity.took(processId, 1)
    try {
      const taken = await this.#claim(lane, processId)
      if (!taken || taken.rounds.length === 0) return
      const { served, shard } = lane.shard
      this.#identity.took(processId, taken.rounds.length)
      await this.#begin(
        { served, processId, shard, slot: slot.index, startedAt: performance.now() },
        taken.rounds,
      )
    } finally {
      this.#identity.gave(processId, 1)
    }
  }

  async #begin(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const queue = claimant.served.queue.name
    for (const { rescued, id, crashes } of rounds) if (rescued) this.emit('rescued', { queue, id, crashes })
    // The lease may have ended while the claim was under way: then nothing may start.
    if (this.#identity.valid && claimant.processId === this.processId) return this.#workOff(claimant, rounds)
    await this.#settlements.settle(claimant, { completed: [], failed: [], released: rounds })
  }

  async #claim(lane: Lane, processId: number): Promise<Claim | undefined> {
    const { queue } = lane.shard.served
    lane.claimBegins()
    try {
      const { batchSize, maxPayloads } = queue
      const taken = await claim(this.#database, processId, lane.key, lane.cursor, batchSize, maxPayloads)
      lane.claimEnded(taken, this.#clock.now())
      return taken
    } catch (error) {
      this.#home.logger.warn({ error: (error as Error).message, queue: queue.name }, 'claiming failed')
      this.emit('failure', error)
      lane.postpone(this.#clock.now() + this.#settings.poll * 1000)
      if (isConnectionFailure(error)) await this.#becomeSomebodyNew()
      return undefined
    }
  }

  async #workOff(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    const { queue } = claimant.served
    const { slot, shard } = claimant
    const batch: RunningBatch = {
      queue,
      rounds,
      slot,
      shard,
      abort: new AbortController(),
      since: new Date(),
    }
    this.emit('started', { queue: queue.name, shard, slot, ids: rounds.map(({ id }) => id) })
    this.#running.add(batch)
    this.#claimants.set(batch, claimant)
    try {
      await workOff(this.#batchSettings!, this.#settlements, claimant, batch)
    } finally {
      this.#claimants.delete(batch)
      this.#running.remove(batch)
    }
  }

  async #becomeSomebodyNew(): Promise<void> {
    await this.#identity.renew()
    this.#dealer?.dealSoon()
    this.#timetable.bell.ring()
  }

  #leaseEnding(): void {
    const { processId } = this
    this.#home.logger.warn({ processId }, 'the lease could not be renewed: aborting what runs')
    this.#running.abortAll(new GivenBack('the lease of this process ends'))
    this.#settlements.forget()
    this.emit('leaseLost', { processId })
    if (this.#state === 'running') void this.#becomeSomebodyNew()
  }

  #locksLost(): void {
    this.#dealer?.locksLost()
    this.#lookout?.flagLost()
  }

  #hear(message: Message): void {
    if (message.kind === 'heads' && message.heads.length > 0) {
      const ours = message.heads.filter((head) => {
        return this.#timetable.notice(
          { queueId: message.queueId, shard: head.shard, lane: head.lane },
          head.performIn,
        )
      })
      if (ours.length === 0) return
      this.#lookout?.woken()
      this.#timetable.bell.ring()
      return
    }
    if (message.kind === 'deal') this.#dealer?.dealSoon()
    this.#lookout?.surveySoon()
  }

  #createSlot(index: number): Slot {
    return new Slot({
      index,
      timetable: this.#timetable,
      scheduler: this.#settings.scheduler,
      ready: () => this.#state === 'running' && this.#identity.valid,
      serve: (lane, slot) => this.#serve(lane, slot),
      onIdle: () => this.#lookout?.slotIdle(),
      onFailure: (error) => {
        this.#home.logger.error({ error: String(error) }, 'the scheduler threw')
        this.emit('failure', error)
      },
      onFree: (shard) => this.#dealer?.shardFree(shard),
    })
  }

  #createLookout(): Lookout {
    return new Lookout({
      database: this.#database,
      timetable: this.#timetable,
      locks: this.#locks,
      logger: this.#home.logger,
      queues: this.#served,
      poll: this.#settings.poll,
      processId: () => this.processId,
      idle: () => this.#slots.some((slot) => slot.idle),
    })
  }

  #createDealer(): Dealer {
    const { splitter, slots, heartbeat } = this.#settings
    return new Dealer({
      database: this.#database,
      timetable: this.#timetable,
      locks: this.#locks,
      clock: this.#clock,
      logger: this.#home.logger,
      queues: this.#served,
      splitter,
      slots,
      heartbeat,
      processId: () => this.processId,
      alive: () => this.#identity.alive,
      onDealt: () => this.#dealt(),
    })
  }

  #dealt(): void {
    this.emit('dealt', { shards: [...this.#timetable.shards].length })
    this.#lookout?.surveySoon()
  }

  #leaseOptions() {
    const { slots, queues, lease, killOnLeaseEnd } = this.#settings
    const names = queues.map(({ name }) => name)
    return {
      config: this.#home.directConfig,
      schema: this.#home.schema,
      info: { host: hostname(), pid: process.pid, version: VERSION, slots, queues: names },
      lease,
      killAtEnd: killOnLeaseEnd,
      onEnding: () => this.#leaseEnding(),
    }
  }

  /** A connection a slot, for claims and handlers' transactions, and some for looking and settling. */
  #createPool(config: ConnectionConfig): pg.Pool {
    const pool = new pg.Pool({ ...config, max: this.#settings.slots + 3, onConnect: prepareSession })
    pool.on('error', (error) => this.#home.logger.warn({ error: error.message }, 'an idle connection broke'))
    // One in a handler's hands has no listener of the pool's, and an error nobody listens to ends the process.
    // What is asked of it next fails, and tells.
    pool.on('connect', (client) => client.on('error', () => {}))
    return pool
  }
}
