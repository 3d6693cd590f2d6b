import type { Vitals } from '../health.ts'
import type { ObservedWorker } from '../instrumentation.ts'
import { Instruments } from '../instruments.ts'
import type { Release } from '../postgres/release.ts'
import { type ProcessRequest, setQuiet } from '../store/process.ts'
import { notify, REBALANCE } from '../store/wake.ts'
import { Assigner } from './assignment/assigner.ts'
import type { ServedQueues } from './assignment/served-queues.ts'
import { ShardLocks } from './assignment/shard-locks.ts'
import { passOn } from './discovery/hearing.ts'
import { Listener } from './discovery/listener.ts'
import { Looks } from './discovery/looks.ts'
import { Poller } from './discovery/poller.ts'
import { eventsOf, type WorkerEmitter } from './events.ts'
import { EventLoop } from './lifecycle/event-loop.ts'
import { stopAll, together } from './lifecycle/service.ts'
import { allMaintenance } from './maintenance/all.ts'
import { Maintainer } from './maintenance/maintainer.ts'
import { Membership } from './membership/membership.ts'
import { releaseRoundsNow } from './membership/release-now.ts'
import { observedWorker } from './observed-worker.ts'
import type { WorkerHome, WorkerSettings } from './options.ts'
import { describer } from './performing/description.ts'
import { Executor } from './performing/executor.ts'
import { InFlight } from './performing/in-flight.ts'
import { Released } from './performing/perform.ts'
import { Slot } from './performing/slot.ts'
import { WorkerLender } from './performing/worker-lender.ts'
import { Pools } from './pools.ts'
import { leaseOptions, prepareDatabase, warnOfUnserved } from './preparation.ts'
import { reportOf } from './report.ts'
import { allOf, Pauses, Refusals } from './schedule/admission.ts'
import { ServerClock } from './schedule/server-clock.ts'
import { tenantWaits } from './schedule/tenant-waits.ts'
import { Timetable } from './schedule/timetable.ts'
import { createSettling, type Settling } from './settling/settling.ts'

/** ms that storing the last outcomes may take at the end. */
const STORING_TIMEOUT = 5_000

export interface EngineOptions {
  readonly settings: WorkerSettings
  readonly home: WorkerHome
  readonly events: WorkerEmitter
  /** Whether new work may be taken. */
  isRunning(): boolean
  /** A later release has migrated the database, and its definitions no longer serve this one. */
  onOutdated(by: Release): void
  /** Someone asks this of the process. Called again at each comparison. */
  onRequest(request: ProcessRequest): void
}

/** The parts that are created after the database has been read at the start. */
interface Running {
  readonly executor: Executor
  readonly poller: Poller
  readonly maintainer: Maintainer
  readonly assigner: Assigner
}

/** Creates the parts of a worker and connects them, starts and stops them, and passes on their messages. */
export class Engine {
  readonly inFlight: InFlight
  readonly membership: Membership
  readonly #options: EngineOptions
  readonly #instruments: Instruments
  readonly #eventLoop = new EventLoop()
  readonly #clock = new ServerClock()
  readonly #pauses = new Pauses()
  readonly #refusals: Refusals
  readonly #timetable: Timetable
  readonly #pools: Pools
  readonly #locks: ShardLocks
  readonly #listener: Listener
  readonly #settling: Settling
  #running: Partial<Running> = {}
  #slots: readonly Slot[] = []
  /** The worker as instruments see it, once it has started. */
  #observed: ObservedWorker | undefined

  constructor(options: EngineOptions) {
    const { settings, home, events } = options
    const { directConfig, schema, logger, instrumentation } = home
    this.#options = options
    this.#refusals = new Refusals(this.#clock, settings.poll)
    this.#timetable = new Timetable(this.#clock, allOf(this.#pauses, this.#refusals))
    this.#instruments = new Instruments([eventsOf(events), ...instrumentation], logger)
    this.inFlight = new InFlight((count) => {
      this.membership.working = count
    })
    const lease = leaseOptions(settings, home, {
      report: () => reportOf(this.#eventLoop.delay, this.#timetable.shards, this.inFlight.report()),
      onRequest: (request) => this.#options.onRequest(request),
      onEnding: () => this.#leaseEnding(),
      onReconnected: () => this.#reregister(),
      onRenewed: (processId, duration) => this.#instruments.tell('renew', { processId, duration }),
      onFailure: (error) => events.emit('failure', error),
    })
    this.membership = new Membership(lease, this.inFlight, logger)
    this.#pools = new Pools(settings.slots, home)
    this.#locks = new ShardLocks(directConfig, schema, logger, (session) => this.#locksLost(session))
    this.#listener = new Listener(directConfig, schema, logger, (message) => passOn(message, this.#running))
    this.#settling = createSettling({ ...this.#common, membership: this.membership })
  }

  /** If this fails, `stop` ends whatever has started. */
  async start(): Promise<void> {
    const { settings, home } = this.#options
    warnOfUnserved(settings, home.logger)
    await this.#eventLoop.start()
    // Connecting takes a while.
    this.membership.prepare()
    const reading = prepareDatabase(this.#pools.own, settings.queues, home.logger)
    await together([reading, this.#locks.start(), this.#listener.start()])
    const { served, lockTimeout } = await reading
    await this.#locks.requireDatabase(this.#pools.own)
    this.#settling.completer.lockTimeout = lockTimeout
    await this.membership.start()
    const executor = this.#createExecutor(lockTimeout)
    const looks = new Looks(this.#common)
    const poller = new Poller({ ...this.#common, looks, queues: served })
    const maintainer = this.#createMaintainer()
    const assigner = this.#createAssigner(served, { executor, poller, maintainer })
    this.#running = { executor, poller, maintainer, assigner }
    const { tally, completer } = this.#settling
    const own = [tally, completer, executor.patience, poller]
    for (const service of [...own, assigner, maintainer]) await service.start()
    this.#slots = Array.from({ length: settings.slots }, (_, index) => this.#createSlot(index, executor))
    // From here on nothing may fail: `stop` expects that nothing is in progress.
    for (const slot of this.#slots) await slot.start()
    this.#observed = observedWorker(settings, this.membership, this.inFlight, this.#timetable)
    this.#instruments.tell('start', { worker: this.#observed })
    await this.#tellOthers()
  }

  /** Makes other processes compare. If the server does not answer, they find out at their next comparison. */
  async #tellOthers(): Promise<void> {
    await notify(this.#pools.own, REBALANCE).catch(() => {})
  }

  /** Lets other processes take the shards. */
  async letGo(): Promise<void> {
    const telling = setQuiet(this.#pools.own, this.membership.processId)
    const [told] = await Promise.allSettled([telling, this.#running.assigner?.quiet()])
    if (told.status === 'fulfilled') await this.#tellOthers()
  }

  /** Begins nothing more. Resolves when everything in progress has ended. */
  async settleDown(): Promise<void> {
    this.membership.settleDown()
    void this.#running.executor?.recall(this.#timetable.shards)
    await Promise.all(this.#slots.map((slot) => slot.stop()))
  }

  /**
   * Everything in progress has ended by now. The membership is removed last, except for connections: as long as outcomes
   * may be stored, the claims must stay ours.
   */
  async stop(): Promise<void> {
    const { executor, assigner, maintainer, poller } = this.#running
    const { tally, completer } = this.#settling
    const { logger } = this.#options.home
    await Promise.all([executor?.patience.stop(), executor?.claimsEnded()])
    if (!(await completer.drain(STORING_TIMEOUT)))
      logger.warn(
        { event: 'unstored' },
        'the worker stops though outcomes are not stored yet, or calls of `onDeath` have not ended',
      )
    // In parallel: if the server does not answer, each waits for its own call.
    await stopAll([assigner, maintainer, poller, completer], logger)
    await stopAll([tally, this.membership], logger)
    await stopAll([this.#listener, this.#locks, this.#eventLoop], logger)
    await this.#pools.end()
    if (this.#observed) this.#instruments.tell('stop', { worker: this.#observed })
  }

  /** What its health is judged by. Asks no one. */
  get vitals(): Vitals {
    return {
      eventLoopDelay: this.#eventLoop.delay,
      leaseLeft: Math.round(this.membership.left),
      leaseValid: this.membership.valid,
      database: this.#running.assigner?.isAnswered ?? false,
      wakeUps: this.#listener.hears,
      working: this.inFlight.count,
    }
  }

  /** Aborts the signals of all handlers, which are not at fault: `why` says so. */
  abort(why: string): void {
    this.inFlight.abortAll(new Released(why))
  }

  /** Releases what is in work, and blocks meanwhile. Returns whether it was done within `timeout` ms. */
  releaseNow(timeout: number): boolean {
    const { config, schema } = this.#options.home
    return releaseRoundsNow({ config, schema, held: this.inFlight.held() }, timeout)
  }

  async #reregister(): Promise<void> {
    await this.membership.reregister()
    this.#running.assigner?.rebalanceSoon()
    this.#timetable.wakeAll()
  }

  #leaseEnding(): void {
    this.abort('the lease of this process ends')
    this.#settling.completer.forget()
    this.#options.events.emit('leaseLost', { processId: this.membership.processId })
    if (this.#options.isRunning()) void this.#reregister()
  }

  #locksLost(session: object): void {
    this.#pools.stranded.add(session)
    this.#running.assigner?.locksLost()
    this.#running.poller?.flagLost()
  }

  #ready(): boolean {
    return this.#options.isRunning() && this.membership.valid
  }

  /** What the parts share, and the worker's settings, of which each takes its own. */
  get #common() {
    const { settings, home, events } = this.#options
    return {
      ...settings,
      database: this.#pools.own,
      stranded: this.#pools.stranded,
      logger: home.logger,
      instruments: this.#instruments,
      locks: this.#locks,
      clock: this.#clock,
      timetable: this.#timetable,
      processId: () => this.membership.processId,
      hears: () => this.#listener.hears,
      onFailure: (error: unknown) => void events.emit('failure', error),
    }
  }

  #createExecutor(lockTimeout: number): Executor {
    const { settings, home } = this.#options
    return new Executor({
      ...this.#common,
      ...this.#settling,
      lockTimeout,
      lender: new WorkerLender(this.#pools.own, this.#pools.handlers, home.logger),
      describe: describer(settings.formatError, home.logger),
      membership: this.membership,
      inFlight: this.inFlight,
      refusals: this.#refusals,
      ready: () => this.#ready(),
      onLostAnswer: () => this.#reregister(),
    })
  }

  #createMaintainer(): Maintainer {
    const all = allMaintenance({
      ...this.#common,
      ledQueues: () => this.#timetable.ledQueues,
      tenantWaits: () => tenantWaits(this.#timetable.shards, this.#clock.now()),
      onGone: () => this.#running.poller?.fullScanSoon(),
      onRemoved: () => this.#running.assigner?.rebalanceSoon(),
      onExpired: (queueId, payloads) => this.#settling.tally.add(queueId, 0, 0, payloads),
    })
    return new Maintainer({ ...this.#common, all })
  }

  #createAssigner(
    queues: ServedQueues,
    { executor, poller, maintainer }: Omit<Running, 'assigner'>,
  ): Assigner {
    const { events, onOutdated } = this.#options
    return new Assigner({
      ...this.#common,
      queues,
      fullScans: poller,
      alive: () => this.membership.alive,
      nextSight: () => maintainer.nextSight,
      onCompared: (seen, askedAt, answeredAt) => {
        this.#clock.compare(seen, askedAt, answeredAt)
        if (this.#pauses.see(seen.queues)) this.#timetable.admissionChanged()
        maintainer.see(seen, answeredAt)
        this.membership.heed(seen.processes)
      },
      onOutlived: () => void this.#reregister(),
      onDropped: (shards) => executor.recall(shards),
      onRebalanced: (shards) => {
        events.emit('rebalanced', { shards })
        poller.fullScanSoon()
      },
      onChanged: () => poller.fullScanSoon(),
      onOutdated,
    })
  }

  #createSlot(index: number, executor: Executor): Slot {
    return new Slot({
      ...this.#common,
      index,
      ready: () => this.#ready(),
      serve: (lane, performOther, onTaken) => executor.serve(lane, index, performOther, onTaken),
      onIdle: () => this.#running.poller?.slotIdle(),
    })
  }
}
