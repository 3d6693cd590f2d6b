import type { Release } from '../postgres/release.ts'
import { setQuiet } from '../store/process.ts'
import { type Message, notify, REBALANCE } from '../store/wake.ts'
import type { Assigner } from './assignment/assigner.ts'
import type { ServedQueues } from './assignment/served-queues.ts'
import { ShardLocks } from './assignment/shard-locks.ts'
import { Listener } from './discovery/listener.ts'
import type { Poller } from './discovery/poller.ts'
import { createAssigner, createExecutor, createMaintainer, createPoller, type Parts } from './engine.ts'
import { WorkerEmitter } from './events.ts'
import { stopAll, together } from './lifecycle/service.ts'
import type { Maintainer } from './maintenance/maintainer.ts'
import { Membership } from './membership/membership.ts'
import { releaseRoundsNow } from './membership/release-now.ts'
import { type WorkerHome, type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import type { Executor } from './performing/executor.ts'
import { InFlight, type SlotReport } from './performing/in-flight.ts'
import { Released } from './performing/perform.ts'
import { Slot } from './performing/slot.ts'
import { Pools } from './pools.ts'
import { leaseOptions, prepareDatabase } from './preparation.ts'
import { ServerClock } from './schedule/server-clock.ts'
import { Timetable } from './schedule/timetable.ts'
import { Batcher } from './settling/batcher.ts'
import { Completer } from './settling/completer.ts'
import { Observer } from './settling/observer.ts'
import { Tally } from './settling/tally.ts'

/** ms for handlers to end once their signals are aborted, and for outcomes still to be stored. */
const GRACE = 5_000
/** ms that giving back at the very end may take: the lease of a process that is gone frees its jobs anyway. */
const RELEASE_TIMEOUT = 5_000

type State = 'new' | 'running' | 'quiet' | 'stopping' | 'stopped'

/** Performs the jobs of queues in this process. Made by `lockstep.createWorker()`. */
export class Worker extends WorkerEmitter {
  readonly #settings: WorkerSettings
  readonly #home: WorkerHome
  readonly #clock = new ServerClock()
  readonly #timetable = new Timetable(this.#clock)
  readonly #inFlight: InFlight
  readonly #membership: Membership
  readonly #pools: Pools
  readonly #locks: ShardLocks
  readonly #listener: Listener
  readonly #tally: Tally
  readonly #batcher: Batcher
  readonly #completer: Completer
  #served: ServedQueues | undefined
  #slots: readonly Slot[] = []
  #executor: Executor | undefined
  #assigner: Assigner | undefined
  #maintainer: Maintainer | undefined
  #poller: Poller | undefined
  #state: State = 'new'
  #started: Promise<void> | undefined
  #stopped: Promise<boolean> | undefined

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  constructor(options: WorkerOptions, home: WorkerHome) {
    super()
    this.#settings = workerSettings(options)
    this.#home = home
    const { directConfig, schema, logger } = home
    this.#inFlight = new InFlight((count) => {
      this.#membership.working = count
    })
    this.#membership = new Membership(
      leaseOptions(this.#settings, home, {
        onEnding: () => this.#leaseEnding(),
        onReconnected: () => this.#reregister(),
        onFailure: (error) => this.emit('failure', error),
      }),
      this.#inFlight,
      logger,
    )
    this.#pools = new Pools(this.#settings.slots, home)
    this.#locks = new ShardLocks(directConfig, schema, logger, (session) => this.#locksLost(session))
    this.#listener = new Listener(directConfig, schema, logger, (message) => this.#hear(message))
    this.#tally = new Tally(this.#pools.own)
    const observer = new Observer(this, this.#tally, this.#membership)
    this.#batcher = new Batcher(this.#pools.own)
    this.#completer = new Completer(this.#pools.own, this.#batcher, this.#timetable, logger, observer)
  }

  /** This worker in the table of processes. */
  get processId(): number {
    return this.#membership.processId
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
      this.#membership.prepare()
      await together([this.#readDatabase(), this.#locks.start(), this.#listener.start()])
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
    this.#completer.lockTimeout = lockTimeout
    this.#executor = this.#createExecutor(lockTimeout)
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

  /** Where the server does not answer, others find out at their next comparison. */
  async #letGo(): Promise<void> {
    const telling = setQuiet(this.#pools.own, this.processId)
    const [told] = await Promise.allSettled([telling, this.#assigner?.quiet()])
    if (told.status === 'fulfilled') await notify(this.#pools.own, REBALANCE).catch(() => {})
  }

  /**
   * Takes nothing new and lets running handlers finish. After `shutdownTimeout` their signals are aborted and what
   * has not ended is released, its numbers unchanged.
   *
   * Resolves to false where a handler ignores its signal. Its jobs stay claimed until it ends, or until the lease
   * does after this process has: two handlers of one id would be worse. A handler that awaits it waits for itself.
   */
  stop(): Promise<boolean> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  /**
   * Releases what still runs after `stop()` resolved to false, its numbers unchanged, and returns whether that
   * was done within `timeout` ms. It blocks, so that no handler goes on beside its successor: end the process at
   * once, without awaiting anything.
   */
  releaseNow(timeout = RELEASE_TIMEOUT): boolean {
    const held = this.#inFlight.held()
    if (held.length === 0) return true
    const { config, schema } = this.#home
    return releaseRoundsNow({ config, schema, held }, timeout)
  }

  /** What every slot is doing, since when. */
  report(): SlotReport[] {
    return this.#inFlight.report()
  }

  async #stop(): Promise<boolean> {
    // Stopped while it starts, it starts first; where it can't, everything is stopped already.
    await this.#started?.catch(() => {})
    if (this.#state === 'new' || this.#state === 'stopped') return true
    const letGo = this.#state === 'running' ? this.#letGo() : undefined
    this.#state = 'stopping'
    this.#membership.settleDown()
    void this.#executor?.recall(this.#timetable.shards)
    const slots = Promise.all(this.#slots.map((slot) => slot.stop()))
    if (!(await this.#inFlight.none(this.#settings.shutdownTimeout))) {
      this.#inFlight.abortAll(new Released('the worker stops'))
      if (!(await this.#inFlight.none(GRACE))) {
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
    await this.#membership.start()
    this.#poller = this.#createPoller()
    this.#maintainer = this.#createMaintainer()
    this.#assigner = this.#createAssigner()
    const own = [this.#tally, this.#completer, this.#executor!.patience, this.#poller]
    for (const service of [...own, this.#assigner, this.#maintainer]) await service.start()
    this.#slots = Array.from({ length: this.#settings.slots }, (_, index) => this.#createSlot(index))
    for (const slot of this.#slots) await slot.start()
    await notify(this.#pools.own, REBALANCE)
  }

  /** The other way round: as long as something may still be stored, the claims stay ours. */
  async #stopServices(): Promise<void> {
    await Promise.all([this.#executor?.patience.stop(), this.#executor?.claimsEnded()])
    await this.#completer.drain(GRACE)
    // Side by side: each waits for a call of its own where the server does not answer.
    const { logger } = this.#home
    await stopAll([this.#assigner, this.#maintainer, this.#poller, this.#completer], logger)
    await stopAll([this.#tally, this.#membership], logger)
    await stopAll([this.#listener, this.#locks], logger)
    await this.#pools.end()
  }

  async #reregister(): Promise<void> {
    await this.#membership.renew()
    this.#assigner?.rebalanceSoon()
    this.#timetable.wakeAll()
  }

  #leaseEnding(): void {
    const { processId } = this
    this.#home.logger.warn({ processId }, 'the lease could not be renewed: aborting what runs')
    this.#inFlight.abortAll(new Released('the lease of this process ends'))
    this.#completer.forget()
    this.emit('leaseLost', { processId })
    if (this.#state === 'running') void this.#reregister()
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
    this.#assigner?.locksLost()
    this.#poller?.flagLost()
  }

  #hear(message: Message): void {
    if (message.kind === 'changed') this.#assigner?.changed(message.state)
    else if (message.kind === 'freed') this.#assigner?.freed()
    else {
      if (message.kind === 'deal') this.#assigner?.rebalanceSoon()
      this.#poller?.hear(message)
    }
  }

  #createSlot(index: number): Slot {
    return new Slot({
      index,
      timetable: this.#timetable,
      scheduler: this.#settings.scheduler,
      logger: this.#home.logger,
      ready: () => this.#ready(),
      serve: (lane) => this.#executor!.serve(lane, index),
      onIdle: () => this.#poller?.slotIdle(),
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
      membership: this.#membership,
      inFlight: this.#inFlight,
      batcher: this.#batcher,
      completer: this.#completer,
    }
  }

  #createPoller(): Poller {
    return createPoller(this.#parts, this.#served!, { hears: () => this.#listener.hears })
  }

  #createMaintainer(): Maintainer {
    return createMaintainer(this.#parts, {
      onGone: () => this.#poller?.fullScanSoon(),
      onRemoved: () => this.#assigner?.rebalanceSoon(),
    })
  }

  #createAssigner(): Assigner {
    return createAssigner(this.#parts, this.#served!, this.#maintainer!, {
      fullScans: this.#poller!,
      hears: () => this.#listener.hears,
      onOutlived: () => void this.#reregister(),
      onDropped: (shards) => this.#executor!.recall(shards),
      onRebalanced: (shards) => {
        this.emit('rebalanced', { shards })
        this.#poller?.fullScanSoon()
      },
      onChanged: () => this.#poller?.fullScanSoon(),
      onOutdated: (by) => this.#outdated(by),
    })
  }

  #createExecutor(lockTimeout: number): Executor {
    return createExecutor(this.#parts, lockTimeout, {
      ready: () => this.#ready(),
      onLostAnswer: () => this.#reregister(),
    })
  }

  #ready(): boolean {
    return this.#state === 'running' && this.#membership.valid
  }
}
