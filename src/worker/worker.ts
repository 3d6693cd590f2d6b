import { LockstepError } from '../errors.ts'
import { type Health, judge, type Vitals, type WorkerState } from '../health.ts'
import { toStartError } from '../postgres/failure.ts'
import type { Release } from '../postgres/release.ts'
import type { ProcessRequest } from '../store/process.ts'
import type { Engine } from './engine.ts'
import { WorkerEmitter } from './events.ts'
import { type WorkerHome, type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import type { SlotReport } from './performing/in-flight.ts'

/**
 * ms that handlers get to end once their signals are aborted. With what follows, and the default of `shutdownTimeout`, it
 * stays within the 30 s after which Kubernetes kills a container.
 */
const GRACE = 2_000
/** ms that releasing jobs at the very end may take. If that fails, the end of the process's lease frees them anyway. */
const RELEASE_TIMEOUT = 2_500

const WORDS: Readonly<Record<ProcessRequest, string>> = { quiet: 'be quiet', stop: 'stop' }

/** Of a worker that was not started. */
const NO_VITALS: Vitals = {
  eventLoopDelay: 0,
  leaseLeft: 0,
  leaseValid: false,
  database: false,
  wakeUps: false,
  working: 0,
}

/** Performs the jobs of queues in this process. Created by `lockstep.createWorker()`. */
export class Worker extends WorkerEmitter {
  readonly #settings: WorkerSettings
  readonly #home: WorkerHome
  #engine: Engine | undefined
  #state: WorkerState = 'new'
  /** Whether its start has succeeded. */
  #hasStarted = false
  /** What was asked of it last. */
  #request: ProcessRequest | undefined
  #started: Promise<void> | undefined
  #stopped: Promise<boolean> | undefined

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  constructor(options: WorkerOptions, home: WorkerHome) {
    super()
    this.#settings = workerSettings(options)
    this.#home = home
  }

  /** This worker's number in the table of processes. */
  get processId(): number {
    return this.#engine?.membership.processId ?? 0
  }

  /**
   * Registers the process, takes its shards and begins to work. Does nothing if the worker was stopped before, such as by a
   * signal.
   * @throws DatabaseError if the database is out of reach, not migrated, read-only, behind a pooler, distributed by
   * Citus or another one than that of `directUrl`, if the role lacks rights, or if the server has no room for the locks
   * @throws LockstepError `LOCKSTEP_CLOSED` if it was called before, even if that failed: create another worker
   */
  async start(): Promise<void> {
    if (this.#state === 'new' && this.#stopped) return
    if (this.#state !== 'new')
      throw new LockstepError(
        'LOCKSTEP_CLOSED',
        'a worker starts once, even if its start failed: create another one',
      )
    this.#state = 'running'
    this.#started = this.#start()
    return this.#started
  }

  async #start(): Promise<void> {
    const engine = await this.#createEngine()
    this.#engine = engine
    try {
      await engine.start()
      this.#hasStarted = true
    } catch (error) {
      this.#state = 'stopping'
      await engine.stop()
      this.#state = 'stopped'
      throw toStartError(error)
    }
  }

  /** What only workers need is loaded here, not with the package: it's half of it. */
  async #createEngine(): Promise<Engine> {
    const { Engine } = await import('./engine.ts')
    return new Engine({
      settings: this.#settings,
      home: this.#home,
      events: this,
      isRunning: () => this.#state === 'running',
      onOutdated: (by) => this.#outdated(by),
      onRequest: (request) => this.#requested(request),
    })
  }

  /**
   * Takes nothing new, and lets other processes take the shards; what runs goes on. There is no way back. A worker that is
   * starting starts first. Does nothing if the worker was not started, or has stopped.
   */
  async quiet(): Promise<void> {
    // If it became quiet during its start, it would lock its shards afterwards, and serve none.
    await this.#started?.catch(() => {})
    if (this.#state !== 'running') return
    this.#state = 'quiet'
    await this.#engine!.letGo()
  }

  /**
   * Takes nothing new and lets running handlers finish. After `shutdownTimeout`, aborts their signals and releases what has
   * not ended, with its numbers unchanged.
   *
   * Resolves to false if a handler ignores its signal, or if the database does not answer the COMMIT of one. The jobs of such
   * a handler stay claimed until it ends, or until this process has ended and its lease too: two handlers of one id would be
   * worse. A handler that awaits `stop()` waits for itself.
   */
  stop(): Promise<boolean> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  /**
   * Releases what still runs after `stop()` resolved to false, with its numbers unchanged. Returns whether that was done
   * within `timeout` ms. Blocks, so that no handler runs beside its successor: end the process at once, without awaiting
   * anything.
   *
   * Returns false if only a function of the application's can connect, since that can't be called meanwhile: `createClient`,
   * or a pool's `stream` or class. With a `password` function, it uses the password that was fetched last.
   */
  releaseNow(timeout = RELEASE_TIMEOUT): boolean {
    return this.#engine?.releaseNow(timeout) ?? true
  }

  /** What every slot is doing, and since when. */
  report(): SlotReport[] {
    return this.#engine?.inFlight.report() ?? []
  }

  /**
   * Whether its event loop runs, whether it takes jobs, whether it has started, and what that is judged by. Asks no one, and
   * takes no time: what it says of the database is from the last comparison of processes and shards, at most some seconds ago.
   * `healthResponse` and `healthListener` answer probes by it.
   */
  health(): Health {
    const vitals = this.#engine?.vitals ?? NO_VITALS
    const state = this.#shownState()
    return { ...judge(state, this.#hasStarted, vitals), state, processId: this.processId, ...vitals }
  }

  #shownState(): WorkerState {
    if (this.#stopped) return this.#state === 'new' || this.#state === 'stopped' ? 'stopped' : 'stopping'
    return this.#state === 'running' && !this.#hasStarted ? 'starting' : this.#state
  }

  async #stop(): Promise<boolean> {
    // If it is stopped while it starts, it starts first. If it can't start, everything has been stopped already.
    await this.#started?.catch(() => {})
    const engine = this.#engine
    if (!engine || this.#state === 'stopped') return true
    const letGo = this.#state === 'running' ? engine.letGo() : undefined
    this.#state = 'stopping'
    const ended = engine.settleDown()
    if (!(await engine.inFlight.none(this.#settings.shutdownTimeout))) {
      engine.abort('the worker stops')
      if (!(await engine.inFlight.none(GRACE))) {
        void ended.then(() => engine.stop())
        await letGo
        return false
      }
    }
    await ended
    await letGo
    await engine.stop()
    this.#state = 'stopped'
    return true
  }

  /** Not again: each comparison finds the request until the row is gone. */
  #requested(request: ProcessRequest): void {
    if (this.#stopped || this.#request === request) return
    this.#request = request
    this.#home.logger.info({ event: 'requested', request }, `someone asked this process to ${WORDS[request]}`)
    this.emit('requested', { request })
    const done: Promise<unknown> = request === 'stop' ? this.stop() : this.quiet()
    done.catch((error) => this.emit('failure', error))
  }

  /** What runs may end and be stored: the functions for that are kept for longer than those that begin something. */
  #outdated({ serial, version }: Release): void {
    if (this.#stopped) return
    this.#home.logger.error(
      { event: 'outdated', version, serial },
      'a later release has migrated the database, and this one can’t work with it: stopping',
    )
    this.emit('outdated', { version, serial })
    this.stop().catch((error) => this.emit('failure', error))
  }
}
