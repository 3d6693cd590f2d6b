import type { Instrumentation, ObservedLockstep, ObservedWorker } from '../instrumentation.ts'
import { settlesWithin } from '../promises.ts'
import type { GaugeKey } from './catalogue.ts'

/** A gauge at the moment. */
export interface Sample {
  readonly gauge: GaugeKey
  readonly value: number
  readonly queue?: string
}

/** ms for which what was read from the database is shown. */
const KEEP = 5_000
/** Reading may take this part of the time at most: it counts all jobs. */
const SHARE = 0.05
/** ms that the database gets to answer, less than what a scrape takes. */
const PATIENCE = 5_000

/** The state of the workers in this process, and of the database that its Lockstep uses. */
export class State {
  /** Tells which there are. */
  readonly instrument: Instrumentation
  readonly #workers = new Set<ObservedWorker>()
  readonly #locksteps = new Set<ObservedLockstep>()
  readonly #readsDatabase: boolean
  readonly #counted: ReadonlySet<string>
  readonly #forget: (queue: string) => void
  /** Of those that were counted, the ones that the last read did not find. */
  #missing: ReadonlySet<string> = new Set()
  /** The queues that there were when the database was last read. */
  #queues: ReadonlySet<string> = new Set()
  #read: readonly Sample[] = []
  #readUntil = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  /** `counted`: the queues of which something was. `forget` is called for each that there was, and is no more. */
  constructor(
    readsDatabase: boolean,
    counted: ReadonlySet<string> = new Set(),
    forget: (queue: string) => void = () => {},
  ) {
    this.#readsDatabase = readsDatabase
    this.#counted = counted
    this.#forget = forget
    this.instrument = {
      open: ({ lockstep }) => void this.#locksteps.add(lockstep),
      close: ({ lockstep }) => void this.#locksteps.delete(lockstep),
      start: ({ worker }) => void this.#workers.add(worker),
      stop: ({ worker }) => void this.#workers.delete(worker),
    }
  }

  /** What is known of it now. Asks the database if what was read is older than some seconds, in one call for all callers. */
  async samples(): Promise<readonly Sample[]> {
    // The one opened last. All serve one database.
    const lockstep = [...this.#locksteps].at(-1)
    if (!lockstep || !this.#readsDatabase) return this.#ofWorkers()
    if (performance.now() >= this.#readUntil) {
      this.#reading ??= this.#readFrom(lockstep)
      // While it doesn't answer, the next ones wait for the same answer.
      if (!(await settlesWithin(this.#reading, PATIENCE))) this.#read = UNREADABLE
    }
    return [...this.#ofWorkers(), ...this.#read]
  }

  #ofWorkers(): Sample[] {
    const sum = (of: 'shards' | 'slots' | 'running') =>
      [...this.#workers].reduce((all, worker) => all + worker[of], 0)
    return (['shards', 'slots', 'running'] as const).map((gauge) => ({ gauge, value: sum(gauge) }))
  }

  async #readFrom(lockstep: ObservedLockstep): Promise<void> {
    const startedAt = performance.now()
    const counted = [...this.#counted]
    try {
      const [{ queues }, snapshot] = [await lockstep.stats(), await lockstep.snapshotAge()]
      this.#read = [
        { gauge: 'readable', value: 1 },
        { gauge: 'snapshot', value: snapshot / 1_000 },
        ...queues.flatMap(samplesOf),
      ]
      this.#forgetOthers(counted, new Set(queues.map(({ queue }) => queue)))
    } catch {
      this.#read = UNREADABLE
    } finally {
      const endedAt = performance.now()
      this.#readUntil = endedAt + Math.max(KEEP, (endedAt - startedAt) / SHARE)
      this.#reading = undefined
    }
  }

  /**
   * What was read before, and is no more; and what was never read, once two reads have missed it: a push is counted before its
   * transaction has committed, and its queue may be made there.
   */
  #forgetOthers(counted: readonly string[], queues: ReadonlySet<string>): void {
    const missing = counted.filter((queue) => !queues.has(queue))
    for (const queue of missing) if (this.#queues.has(queue) || this.#missing.has(queue)) this.#forget(queue)
    this.#queues = queues
    this.#missing = new Set(missing)
  }
}

/** Old numbers would look like current ones. */
const UNREADABLE: readonly Sample[] = [{ gauge: 'readable', value: 0 }]

type Queue = Awaited<ReturnType<ObservedLockstep['stats']>>['queues'][number]

function samplesOf({ queue, waiting, due, working, dead, lag, pausedAt }: Queue): Sample[] {
  return [
    { gauge: 'waiting', queue, value: waiting },
    { gauge: 'due', queue, value: due },
    { gauge: 'working', queue, value: working },
    { gauge: 'dead', queue, value: dead },
    { gauge: 'lag', queue, value: lag / 1_000 },
    { gauge: 'paused', queue, value: pausedAt ? 1 : 0 },
  ]
}
