import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import type { Comparison } from '../../store/comparison.ts'
import { runAlone } from '../../store/maintenance.ts'
import { Loop, type Service, together } from '../lifecycle/service.ts'
import type { Maintenance } from './maintenance.ts'

export interface MaintainerOptions {
  readonly database: Database
  readonly logger: Logger
  readonly instruments: Instruments
  readonly all: readonly Maintenance[]
  /** A run failed. The next one comes as usual. */
  onFailure(error: unknown): void
}

/**
 * Runs each kind of maintenance at its time, or when a comparison has shown that there is something to do. What comparisons
 * show, as that a process has died, doesn't wait for the rest, which may take seconds.
 */
export class Maintainer implements Service {
  readonly #all: readonly Maintenance[]
  readonly #tracks: readonly Track[]

  constructor(options: MaintainerOptions) {
    this.#all = options.all
    const [seeing, others] = [options.all.filter(({ see }) => see), options.all.filter(({ see }) => !see)]
    this.#tracks = [seeing, others].map((all) => new Track({ ...options, all }))
  }

  async start(): Promise<void> {
    await together(this.#tracks.map((track) => track.start()))
  }

  async stop(): Promise<void> {
    await together(this.#tracks.map((track) => track.stop()))
  }

  /** Passes on the result of a comparison. */
  see(seen: Comparison, at: number): void {
    for (const one of this.#all) one.see?.(seen, at)
    for (const track of this.#tracks) track.wake()
  }

  /** ms until another comparison is needed. */
  get nextSight(): number {
    return Math.min(...this.#all.map((one) => one.nextSight?.() ?? Number.POSITIVE_INFINITY))
  }
}

/** Runs some kinds of maintenance, one after the other. */
class Track implements Service {
  readonly #options: MaintainerOptions
  readonly #loop = new Loop(() => this.#pass())
  /**
   * When each runs next, in ms of the monotonic clock. Those that don't depend on comparisons begin at a random time, so
   * that processes that start together don't run them together.
   */
  readonly #next: Map<Maintenance, number>
  readonly #failing = new Set<Maintenance>()

  constructor(options: MaintainerOptions) {
    this.#options = options
    const now = performance.now()
    this.#next = new Map(options.all.map((one) => [one, one.see ? now : now + Math.random() * one.every]))
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Something may have become due. */
  wake(): void {
    this.#loop.alarm.ring()
  }

  async #pass(): Promise<void> {
    const left = this.#left()
    if (left > 0) await this.#loop.alarm.wait(left)
    for (const [one, next] of this.#next) {
      if (this.#loop.stopping) return
      if (isDue(one) && next <= performance.now()) await this.#run(one)
    }
  }

  /** ms until the next run. */
  #left(): number {
    const due = [...this.#next].filter(([one]) => isDue(one)).map(([, next]) => next)
    return Math.min(...due) - performance.now()
  }

  async #run(one: Maintenance): Promise<void> {
    const { database, logger, instruments } = this.#options
    const { name } = one
    const startedAt = performance.now()
    try {
      const work = () => runAlone(database, name, () => one.run(database))
      const done = await instruments.watch('maintain', { name }, work, (done) => ({ done }))
      const duration = Math.round(performance.now() - startedAt)
      if (done)
        logger.info({ event: 'maintenance', maintenance: name, ...done, duration }, 'maintenance done')
      this.#failing.delete(one)
    } catch (error) {
      this.#tell(one, error)
    }
    this.#next.set(one, performance.now() + one.every)
  }

  /** It may fail each time, so only the first failure in a row is logged. */
  #tell(one: Maintenance, error: unknown): void {
    const { logger, onFailure } = this.#options
    if (!this.#failing.has(one))
      logger.warn(
        { event: 'maintenance', maintenance: one.name, error: (error as Error).message },
        'maintenance failed',
      )
    this.#failing.add(one)
    onFailure(error)
  }
}

function isDue(one: Maintenance): boolean {
  return one.isDue?.() ?? true
}
