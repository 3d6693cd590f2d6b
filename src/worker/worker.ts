import type { Release } from '../postgres/release.ts'
import { setQuiet } from '../store/process.ts'
import { DEAL, type Message, notify } from '../store/wake.ts'
import type { Dealer } from './assignment/assigner.ts'
import type { ServedQueues } from './assignment/served-queues.ts'
import { ShardLocks } from './assignment/shard-locks.ts'
import { WakeUp } from './discovery/listener.ts'
import type { Lookout } from './discovery/poller.ts'
import { createDealer, createLookout, createServing, type Parts } from './engine.ts'
import { WorkerEmitter } from './events.ts'
import { stopAll, together } from './lifecycle/service.ts'
import { Identity } from './membership/membership.ts'
import { Pools } from './membership/pools.ts'
import { giveBackRounds } from './membership/release-now.ts'
import { type WorkerHome, type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import type { Serving } from './performing/executor.ts'
import { Running, type SlotReport } from './performing/in-flight.ts'
import { GivenBack } from './performing/perform.ts'
import { Slot } from './performing/slot.ts'
import { leaseOptions, prepareDatabase } from './preparation.ts'
import { ServerClock } from './schedule/server-clock.ts'
import { Timetable } from './schedule/timetable.ts'
import { Exchange } from './settling/batcher.ts'
import { Settlements } from './settling/completer.ts'
import { Observer } from './settling/observer.ts'
import { Tally } from './settling/tally.ts'

/** ms for handlers to end once their signals are aborted, and for outcomes still to be stored. */
const GRACE = 5_000
/** ms that giving back at the very end may take: the lease of a process that is gone frees its jobs anyway. */
const GIVE_BACK_TIMEOUT = 5_000

type State = 'new' | 'running' | 'quiet' | 'stopping' | 'stopped'

/** Works off queues in this process. Made by `lockstep.createWorker()`. */
export class Worker extends WorkerEmitter {
  readonly #settings: WorkerSettings
  readonly #home: WorkerHome
  readonly #clock = new ServerClock()
  readonly #timetable = new Timetable(this.#clock)
  readonly #running: Running
  readonly #identity: Identity
  readonly #pools: Pools
  readonly #locks: ShardLocks
  readonly #wakeUp: WakeUp
  readonly #tally: Tally
  readonly #exchange: Exchange
  readonly #settlements: Settlements
  #served: ServedQueues | undefined
  #slots: readonly Slot[] = []
  #serving: Serving | undefined
  #dealer: Dealer | undefined
  #lookout: Lookout | undefined
  #state: State = 'new'
  #started: Promise<void> | undefined
  #stopped: Promise<boolean> | undefined

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  constructor(options: WorkerOptions, home: WorkerHome) {
    super()
    this.#settings = workerSettings(options)
    this.#home = home
    const { directConfig, schema, logger } = home
    this.#running = new Running((count) => {
      this.#identity.working = count
    })
    this.#identity = new Identity(
      leaseOptions(this.#settings, home, {
        onEnding: () => this.#leaseEnding(),
        onReconnected: () => this.#becomeSomebodyNew(),
        onFailure: (error) => this.emit('failure', error),
      }),
      this.#running,
      logger,
    )
    this.#pools = new Pools(this.#settings.slots, home)
    this.#locks = new ShardLocks(directConfig, schema, logger, (session) => this.#locksLost(session))
    this.#wakeUp = new WakeUp(directConfig, schema, logger, (message) => this.#hear(message))
    this.#tally = new Tally(this.#pools.own)
    const observer = new Observer(this, this.#tally, this.#identity)
    this.#exchange = new Exchange(this.#pools.own)
    this.#settlements = new Settlements(this.#pools.own, this.#exchange, this.#timetable, logger, observer)
  }

  /** This worker in the table of processes. */
  get processId(): number {
    return this.#identity.processId
  }

  /**
   * Registers the process, takes its shards and begins to work. Does nothing where a signal has stopped the worker before.
   * @throws DatabaseError where the database is out of reach, not migrated, read-only, behind a pooler or distributed by
   * Citus, where the role lacks rights, or the server has no room for the locks
   */
  async start(): Promise<void> {
    if (this.#state === 'new' && this.#stopped) return
    if (this.#state !== 'new') throw new Error('a worker starts once: create another one')
    this.#state = 'running'
    this.#started = this.#start()
    return this.#started
  }

  async #start(): Promise<void> {
    try {
      // To connect takes a while.
      this.#identity.prepare()
      await together([this.#readDatabase(), this.#locks.start(), this.#wakeUp.start()])
      await this.#startServices()
    } catch (error) {
      this.#state = 'stopping'
      await this.#stopServices()
      this.#state = 'stopped'
      throw error
    }
  }

  async #readDatabase(): Promise<void> {
    const { queues } = this.#settings
    const { served, lockTimeout } = await prepareDatabase(this.#pools.own, queues, this.#home.logger)
    this.#served = served
    this.#settlements.lockTimeout = lockTimeout
    this.#serving = this.#createServing(lockTimeout)
  }

  /**
   * Takes nothing new and lets others have the shards; what runs goes on. There is no way back. A worker that is starting
   * starts first; one that was not started, or has stopped, does nothing.
   */
  async quiet(): Promise<void> {
    // Quiet in the midst of its start, it would lock its shards afterwards, and serve none.
    await this.#started?.catch(() => {})
    if (this.#state !== 'running') return
    this.#state = 'quiet'
    await this.#letGo()
  }

  /** Where the server does not answer, others find out at their next heartbeat. */
  async #letGo(): Promise<void> {
    const telling = setQuiet(this.#pools.own, this.processId)
    const [told] = await Promise.allSettled([telling, this.#dealer?.quiet()])
    if (told.status === 'fulfilled') await notify(this.#pools.own, DEAL).catch(() => {})
  }

  /**
   * Takes nothing new and lets running handlers finish. After `shutdownTimeout` their signals are aborted and what
   * has not ended is given back, its numbers unchanged.
   *
   * Resolves to false where a handler ignores its signal. Its jobs stay claimed until it ends, or until the lease
   * does after this process has: two handlers of one id would be worse. A handler that awaits it waits for itself.
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
    const held = this.#running.held()
    if (held.length === 0) return true
    const { config, schema } = this.#home
    return giveBackRounds({ config, schema, held }, timeout)
  }

  /** What every slot is doing, since when. */
  report(): SlotReport[] {
    return this.#running.report()
  }

  async #stop(): Promise<boolean> {
    // Stopped while it starts, it starts first; where it can't, everything is stopped already.
    await this.#started?.catch(() => {})
    if (this.#state === 'new' || this.#state === 'stopped') return true
    const letGo = this.#state === 'running' ? this.#letGo() : undefined
    this.#state = 'stopping'
    this.#identity.settleDown()
    this.#serving?.recall(this.#timetable.shards)
    const slots = Promise.all(this.#slots.map((slot) => slot.stop()))
    if (!(await this.#running.none(this.#settings.shutdownTimeout))) {
      this.#running.abortAll(new GivenBack('the worker stops'))
      if (!(await this.#running.none(GRACE))) {
        void slots.then(() => this.#stopServices())
        await letGo
        return false
      }
    }
    await slots
    await letGo
    await this.#stopServices()
    this.#state = 'stopped'
    return true
  }

  async #startServices(): Promise<void> {
    await this.#identity.start()
    this.#lookout = this.#createLookout()
    this.#dealer = this.#createDealer()
    const services = [this.#tally, this.#settlements, this.#serving!.patience, this.#lookout, this.#dealer]
    for (const service of services) await service.start()
    this.#slots = Array.from({ length: this.#settings.slots }, (_, index) => this.#createSlot(index))
    for (const slot of this.#slots) await slot.start()
    await notify(this.#pools.own, DEAL)
  }

  /** The other way round: as long as something may still be stored, the claims stay ours. */
  async #stopServices(): Promise<void> {
    await Promise.all([this.#serving?.patience.stop(), this.#serving?.claimsEnded()])
    await this.#settlements.drain(GRACE)
    // Side by side: each waits for a call of its own where the server does not answer.
    const { logger } = this.#home
    await stopAll([this.#dealer, this.#lookout, this.#settlements], logger)
    await stopAll([this.#tally, this.#identity], logger)
    await stopAll([this.#wakeUp, this.#locks], logger)
    await this.#pools.end()
  }

  async #becomeSomebodyNew(): Promise<void> {
    await this.#identity.renew()
    this.#dealer?.dealSoon()
    this.#timetable.wakeAll()
  }

  #leaseEnding(): void {
    const { processId } = this
    this.#home.logger.warn({ processId }, 'the lease could not be renewed: aborting what runs')
    this.#running.abortAll(new GivenBack('the lease of this process ends'))
    this.#settlements.forget()
    this.emit('leaseLost', { processId })
    if (this.#state === 'running') void this.#becomeSomebodyNew()
  }

  /** What runs may end and be stored: the functions for that stand longer than those that begin something. */
  #outdated({ serial, version }: Release): void {
    if (this.#stopped) return
    this.#home.logger.error(
      { version, serial },
      'a later release has migrated the database, and this one can’t work with it: stopping',
    )
    this.emit('outdated', { version, serial })
    this.stop().catch((error) => this.emit('failure', error))
  }

  #locksLost(session: object): void {
    this.#pools.stranded.add(session)
    this.#dealer?.locksLost()
    this.#lookout?.flagLost()
  }

  #hear(message: Message): void {
    if (message.kind === 'changed') this.#dealer?.changed(message.state)
    else if (message.kind === 'freed') this.#dealer?.freed()
    else {
      if (message.kind === 'deal') this.#dealer?.dealSoon()
      this.#lookout?.hear(message)
    }
  }

  #createSlot(index: number): Slot {
    return new Slot({
      index,
      timetable: this.#timetable,
      scheduler: this.#settings.scheduler,
      logger: this.#home.logger,
      ready: () => this.#ready(),
      serve: (lane) => this.#serving!.serve(lane, index),
      onIdle: () => this.#lookout?.slotIdle(),
      onFailure: (error) => this.emit('failure', error),
    })
  }

  /** For those that are made at the start. */
  get #parts(): Parts {
    return {
      settings: this.#settings,
      home: this.#home,
      events: this,
      pools: this.#pools,
      locks: this.#locks,
      clock: this.#clock,
      timetable: this.#timetable,
      identity: this.#identity,
      running: this.#running,
      exchange: this.#exchange,
      settlements: this.#settlements,
    }
  }

  #createLookout(): Lookout {
    return createLookout(this.#parts, this.#served!, { hears: () => this.#wakeUp.hears })
  }

  #createDealer(): Dealer {
    return createDealer(this.#parts, this.#served!, {
      surveys: this.#lookout!,
      hears: () => this.#wakeUp.hears,
      onOutlived: () => void this.#becomeSomebodyNew(),
      onDropped: (shards) => this.#serving?.recall(shards),
      onDealt: (shards) => {
        this.emit('dealt', { shards })
        this.#lookout?.surveySoon()
      },
      onChanged: () => this.#lookout?.surveySoon(),
      onGone: () => this.#lookout?.surveySoon(),
      onOutdated: (by) => this.#outdated(by),
    })
  }

  #createServing(lockTimeout: number): Serving {
    return createServing(this.#parts, lockTimeout, {
      ready: () => this.#ready(),
      onLostAnswer: () => this.#becomeSomebodyNew(),
    })
  }

  #ready(): boolean {
    return this.#state === 'running' && this.#identity.valid
  }
}
