import type { Release } from '../postgres/release.ts'
import { Engine } from './engine.ts'
import { WorkerEmitter } from './events.ts'
import { releaseRoundsNow } from './membership/release-now.ts'
import { type WorkerHome, type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import type { SlotReport } from './performing/in-flight.ts'
import { Released } from './performing/perform.ts'

/** ms for handlers to end once their signals are aborted. */
const GRACE = 5_000
/** ms that giving back at the very end may take: the lease of a process that is gone frees its jobs anyway. */
const RELEASE_TIMEOUT = 5_000

type State = 'new' | 'running' | 'quiet' | 'stopping' | 'stopped'

/** Performs the jobs of queues in this process. Made by `lockstep.createWorker()`. */
export class Worker extends WorkerEmitter {
  readonly #settings: WorkerSettings
  readonly #home: WorkerHome
  readonly #engine: Engine
  #state: State = 'new'
  #started: Promise<void> | undefined
  #stopped: Promise<boolean> | undefined

  /** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
  constructor(options: WorkerOptions, home: WorkerHome) {
    super()
    this.#settings = workerSettings(options)
    this.#home = home
    this.#engine = new Engine({
      settings: this.#settings,
      home,
      events: this,
      isRunning: () => this.#state === 'running',
      onOutdated: (by) => this.#outdated(by),
    })
  }

  /** This worker in the table of processes. */
  get processId(): number {
    return this.#engine.membership.processId
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
      await this.#engine.start()
    } catch (error) {
      this.#state = 'stopping'
      await this.#engine.stop()
      this.#state = 'stopped'
      throw error
    }
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
    await this.#engine.letGo()
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
    const held = this.#engine.inFlight.held()
    if (held.length === 0) return true
    const { config, schema } = this.#home
    return releaseRoundsNow({ config, schema, held }, timeout)
  }

  /** What every slot is doing, since when. */
  report(): SlotReport[] {
    return this.#engine.inFlight.report()
  }

  async #stop(): Promise<boolean> {
    // Stopped while it starts, it starts first; where it can't, everything is stopped already.
    await this.#started?.catch(() => {})
    if (this.#state === 'new' || this.#state === 'stopped') return true
    const letGo = this.#state === 'running' ? this.#engine.letGo() : undefined
    this.#state = 'stopping'
    const ended = this.#engine.settleDown()
    const { inFlight } = this.#engine
    if (!(await inFlight.none(this.#settings.shutdownTimeout))) {
      inFlight.abortAll(new Released('the worker stops'))
      if (!(await inFlight.none(GRACE))) {
        void ended.then(() => this.#engine.stop())
        await letGo
        return false
      }
    }
    await ended
    await letGo
    await this.#engine.stop()
    this.#state = 'stopped'
    return true
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
}
