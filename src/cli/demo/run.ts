import { setTimeout as sleep } from 'node:timers/promises'
import pc from 'picocolors'
import { count, plural } from '../output.ts'
import type { DemoDatabase } from './database.ts'
import { countProgress, gatherEvidence, measureDuration, only } from './evidence.ts'
import { orderCount } from './feed.ts'
import { judge } from './judge.ts'
import { LEASE, SLOTS } from './ordered.ts'
import type { Outcome } from './outcome.ts'
import { SENDING_LIMIT } from './pace.ts'
import type { DemoProcess } from './process.ts'
import { DemoProcesses } from './processes.ts'
import { measureProcessors, type ProcessorUse } from './processors.ts'
import { PRODUCERS } from './producers.ts'
import type { Screen } from './screen.ts'

export interface DemoRunOptions {
  readonly database: DemoDatabase
  readonly naive: boolean
  readonly events: number
  readonly screen: Screen
  /** Every process that was started, for the cleanup. */
  readonly processes: DemoProcess[]
  /** Aborting it stops everything. */
  readonly signal: AbortSignal
}

/** The part of the feed after which a worker is killed. */
const KILL_AT = 0.4
/** ms until another worker joins. */
const JOIN_AFTER = 1_000
/** ms to apply what is left once everything is sent. */
const DRAIN_TIMEOUT = 45_000
/** ms between updates of the progress. */
const LOOK_EVERY = 250
/** ms to wait until the worker to be killed has an order in work. */
const AIM_TIMEOUT = 3_000

/** The course of the demo: when processes start, which one is killed, and which one joins. */
export class DemoRun {
  readonly #options: DemoRunOptions
  readonly #processes: DemoProcesses
  #inWork = 0

  constructor(options: DemoRunOptions) {
    this.#options = options
    this.#processes = new DemoProcesses({ ...options, connectionString: options.database.connectionString })
  }

  async run(): Promise<Outcome> {
    this.#introduce()
    await Promise.all([this.#processes.startWorker(), this.#processes.startWorker()])
    const measured = measureProcessors()
    const feed = this.#processes.startFeed()
    const killing = this.#killAndReplace(feed)
    // If following the feed fails first, report that error.
    killing.catch(() => {})
    await this.#follow(feed)
    await killing
    await this.#drain(feed)
    const processors = measured()
    await this.#processes.stopWorkers()
    return this.#conclude(feed, processors)
  }

  #introduce(): void {
    const { events, screen, database, naive } = this.#options
    const queue = naive ? 'plain workers without order' : 'workers in lockstep'
    screen.tell(
      `${count(events)} updates of ${count(orderCount(events))} orders, out of order, from ${PRODUCERS} producers`,
    )
    screen.tell(`for ${queue}, ${SLOTS} handlers at a time each`)
    screen.tell(pc.dim(`in ${database.description}`))
  }

  async #killAndReplace(feed: DemoProcess): Promise<void> {
    const { events, screen, naive } = this.#options
    const until = performance.now() + SENDING_LIMIT * KILL_AT
    while (sentBy(feed) < events * KILL_AT && performance.now() < until) await this.#pause(20)
    const target = this.#processes.workers[1]!
    await this.#aim(target)
    await target.kill()
    this.#inWork = target.inWork.length
    const rescue = naive ? '' : `; they are free when its lease of ${LEASE / 1000} s ends`
    screen.tell(
      pc.red(`${target.name} killed with SIGKILL, ${plural(this.#inWork, 'order')} in progress${rescue}`),
    )
    await this.#pause(JOIN_AFTER)
    screen.tell(pc.green('a third worker joins'))
    await this.#processes.startWorker()
  }

  /** The worker should be killed in the middle of its work. */
  async #aim(target: DemoProcess): Promise<void> {
    const until = performance.now() + AIM_TIMEOUT
    while (target.inWork.length === 0 && performance.now() < until) await this.#pause(1)
  }

  async #follow(feed: DemoProcess): Promise<void> {
    let ended = false
    const gone = feed.gone.then(() => {
      ended = true
    })
    while (!ended) {
      await this.#showProgress(feed)
      await Promise.race([gone, this.#pause(LOOK_EVERY)])
    }
    if (!feed.succeeded) throw new Error(`the feed ended with ${feed.ending}`)
  }

  async #drain(feed: DemoProcess): Promise<void> {
    const until = performance.now() + DRAIN_TIMEOUT
    while ((await this.#showProgress(feed)) > 0 && performance.now() < until) await this.#pause(LOOK_EVERY)
  }

  /** Shows the progress, and returns how many updates wait in the queue. */
  async #showProgress(feed: DemoProcess): Promise<number> {
    const { database, naive, screen, events } = this.#options
    const { applied, waiting } = await countProgress(database.client, naive)
    screen.show({ sent: sentBy(feed), applied, total: events })
    return waiting
  }

  async #conclude(feed: DemoProcess, processors: ProcessorUse): Promise<Outcome> {
    const { database, naive, events } = this.#options
    const { workers } = this.#processes
    const evidence = await gatherEvidence(database.client, naive, feed, workers)
    const notes = workers.flatMap(({ entries }) => entries)
    return {
      naive,
      orders: orderCount(events),
      planned: events,
      verdict: judge(evidence),
      seconds: await measureDuration(database.client, evidence.sent),
      processors,
      pickUps: only(notes, 'pickUp'),
      inWorkAtKill: this.#inWork,
      deadlocks: only(notes, 'deadlock').length,
      warnings: only(notes, 'warning').map(({ message }) => message),
    }
  }

  /** Rejects on abort, so that it does not keep the process from ending. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#options.signal })
  }
}

function sentBy(feed: DemoProcess): number {
  return only(feed.entries, 'sent').reduce((sum, { updates }) => sum + updates.length, 0)
}
