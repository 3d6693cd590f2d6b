import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import { LockstepError, summaryOf } from '../errors.ts'
import { Instruments } from '../instruments.ts'
import { homeOf, type Lockstep } from '../lockstep.ts'
import { optionalFunctions, rejectUnknownOptions } from '../options.ts'
import { toLockstepError } from '../postgres/failure.ts'
import type { Queue } from '../queue.ts'
import type { Cursor, Round } from '../store/claim.ts'
import { exchange } from '../store/exchange.ts'
import { loadPayloads } from '../store/load.ts'
import { patiently } from '../store/patience.ts'
import { registerProcess, removeProcess } from '../store/process.ts'
import { ensureQueue } from '../store/queue.ts'
import { VERSION } from '../version.ts'
import type { ServerMiddleware } from '../worker/middleware.ts'
import { checkQueues } from '../worker/options.ts'
import { performBatch } from '../worker/performing/batch.ts'
import { describer } from '../worker/performing/description.ts'
import { Abort } from '../worker/performing/perform.ts'
import type { BatchSettings } from '../worker/performing/transaction.ts'
import { ServedQueue } from '../worker/schedule/served-queue.ts'
import type { Claimant } from '../worker/settling/claimant.ts'
import { storeIn } from '../worker/settling/piece.ts'
import { type DueLane, dueLanes, makeDue, passTime, untilNext } from './due.ts'
import { readClock } from './read-clock.ts'
import { Records, type Settlement } from './records.ts'
import { openSite, type Site } from './site.ts'

export interface DrainOptions {
  /**
   * Performs in this transaction, which no one else need see; any that `enqueue` takes. Transactional handlers get it as
   * `context.tx`, between savepoints. Default: connections of its own.
   */
  readonly tx?: EnqueueTransaction
  /**
   * Failed jobs are tried again at once, until they succeed or die, and the failures are in the result. By default, the first
   * failure is stored, and what its handler threw is what `drain` rejects with.
   */
  readonly retries?: boolean
  /** Also performs what is due later: time passes for these queues as by `advance`. Default false. */
  readonly future?: boolean
  /** As for workers. Default none. */
  readonly middleware?: readonly ServerMiddleware[]
}

/** A round that failed. */
export interface FailedRun {
  readonly queue: string
  readonly id: string
  /** What the handler threw. */
  readonly error: unknown
  /** Seconds until the next try; null if payloads went to the morgue. */
  readonly retryIn: number | null
}

/** What a drain has done; counts are rounds, unless they say otherwise. */
export interface Drained {
  readonly completed: number
  readonly snoozed: number
  readonly dropped: number
  /** Payloads that had expired, and that no handler was given. */
  readonly expired: number
  readonly failed: readonly FailedRun[]
}

const OPTIONS = ['tx', 'retries', 'future', 'middleware']
const BEGINNING = { after: null, afterId: '' }
/** ms. Workers that run beside it may take over what it has in work if it lasts longer. */
const LEASE = 60_000
/** ms that an outcome waits for a producer's transaction that stays open. */
const STORING_TIMEOUT = 10_000
const STORING_PAUSE = 20
/** How often one id may run. */
const MOST_RUNS = 1_000

/**
 * Performs everything that is due in these queues, in this process and without a worker, one batch after the other, until
 * nothing is due any more; what handlers push meanwhile is included. For tests.
 *
 * Limits that are in the database are kept. What is over a rate stays waiting: `advance` lets the time of its window pass.
 *
 * Rejects with what a handler threw, unless `retries` is set.
 * @throws OptionError; LockstepError `LOCKSTEP_BAD_TRANSACTION` if `tx` is in no transaction, in one that is READ ONLY or of
 * another database, does not fit the handlers, or is ended by one; `LOCKSTEP_CONNECTION` if a handler's transaction can't
 * begin; `LOCKSTEP_READ_ONLY` if its connections may only read; `LOCKSTEP_LOCKED` if another transaction keeps holding a job
 * that was performed; `LOCKSTEP_ENDLESS` if an id has run 1,000 times
 */
export async function drain(
  lockstep: Lockstep,
  queues: Queue | readonly Queue[],
  options: DrainOptions = {},
): Promise<Drained> {
  rejectUnknownOptions(options, OPTIONS, 'drain')
  const checked = checkQueues(Array.isArray(queues) ? queues : [queues])
  const middleware = optionalFunctions(options.middleware, 'drain: middleware')
  const { logger } = homeOf(lockstep)
  const site = await openSite(lockstep, options)
  const { database, client } = site
  const info = { host: hostname(), pid: process.pid, version: VERSION, slots: 1, queues: [] }
  try {
    for (const queue of checked) site.requireFitting(queue)
    const registering = registerProcess(client ?? database.pool, database.schema, info, LEASE)
    const processId = await registering.catch((error) => {
      throw toLockstepError(error)
    })
    try {
      const served: ServedQueue[] = []
      for (const queue of checked)
        served.push(new ServedQueue(queue, await ensureQueue(database, queue.name, queue.shards)))
      const settings = {
        ...site,
        middleware,
        logger,
        instruments: new Instruments([], logger),
        clock: await readClock(database),
      }
      return await new Drain(site, settings, processId, served, options).run()
    } finally {
      // In an aborted transaction nothing can be removed, and need not be.
      await removeProcess(client ?? database.pool, database.schema, processId).catch(() => {})
    }
  } finally {
    await site.end()
  }
}

class Drain {
  readonly #site: Site
  readonly #settings: BatchSettings
  readonly #processId: number
  readonly #served: ReadonlyMap<number, ServedQueue>
  readonly #options: DrainOptions
  readonly #records: Records
  readonly #runs = new Map<string, number>()
  /** When a rate lets a job go that claims have passed over since the last look; in microseconds since 1970. */
  #allowedAt = Number.POSITIVE_INFINITY

  constructor(
    site: Site,
    settings: BatchSettings,
    processId: number,
    served: readonly ServedQueue[],
    options: DrainOptions,
  ) {
    this.#site = site
    this.#settings = settings
    this.#processId = processId
    this.#served = new Map(served.map((one) => [one.queueId, one]))
    this.#options = options
    this.#records = new Records(settings.logger)
  }

  async run(): Promise<Drained> {
    const { database } = this.#site
    const queueIds = [...this.#served.keys()]
    for (;;) {
      let began = false
      this.#allowedAt = Number.POSITIVE_INFINITY
      for (const lane of await dueLanes(database, queueIds)) began = (await this.#performNext(lane)) || began
      if (began) continue
      const ms = this.#options.future ? await this.#untilNext(queueIds) : undefined
      // What is due already is locked by another transaction.
      if (ms === undefined || ms <= 0) return this.#records.drained
      await passTime(database, queueIds, ms)
    }
  }

  /** ms until something may begin: when the next job is due, or a rate lets one go. */
  async #untilNext(queueIds: readonly number[]): Promise<number | undefined> {
    const due = await untilNext(this.#site.database, queueIds)
    const allowed = this.#allowedAt / 1_000 - Date.now()
    return due !== undefined && due <= 0 && Number.isFinite(allowed) ? Math.max(allowed, 1) : due
  }

  /** Performs one batch of a lane, if it has something that no one else has locked. */
  async #performNext(key: DueLane): Promise<boolean> {
    const served = this.#served.get(key.queueId)!
    const rounds = await this.#claim(served, key)
    this.#count(served, rounds)
    const claimant = {
      processId: this.#processId,
      release() {},
      served,
      shard: key.shard,
      slot: 0,
      startedAt: performance.now(),
    }
    const loaded = await this.#load(
      claimant,
      rounds.filter(({ toLoad }) => toLoad),
    )
    for (const round of loaded) await this.#perform(claimant, [round])
    await this.#perform(
      claimant,
      rounds.filter(({ toLoad }) => !toLoad),
    )
    return rounds.length > 0
  }

  /** A claim reads a bounded part of what limits keep waiting, so one that brings nothing goes on behind that. */
  async #claim(served: ServedQueue, key: DueLane, cursor: Cursor = BEGINNING): Promise<readonly Round[]> {
    const { batchSize: count, maxPayloads, maxBytes } = served.queue
    const wish = { key, cursor, count, maxPayloads, maxBytes }
    const { claims } = await exchange(this.#site.database, this.#processId, [], [wish])
    const { rounds, waits, head } = claims[0]!
    for (const { until } of waits?.limits ?? [])
      this.#allowedAt = Math.min(this.#allowedAt, until ?? Number.POSITIVE_INFINITY)
    if (rounds.length > 0 || !waits || waits.full || head === null) return rounds
    return this.#claim(served, key, { after: waits.to, afterId: waits.toId })
  }

  #count({ queue }: ServedQueue, rounds: readonly Round[]): void {
    for (const { id } of rounds) {
      const key = JSON.stringify([queue.name, id])
      const runs = (this.#runs.get(key) ?? 0) + 1
      this.#runs.set(key, runs)
      if (runs > MOST_RUNS) {
        const message = `id "${id}" of queue "${queue.name}" has run ${MOST_RUNS} times, and is due again: a handler pushes or snoozes it each time`
        throw new LockstepError('LOCKSTEP_ENDLESS', message)
      }
    }
  }

  /** The rounds with their payloads; without those whose claims are lost. */
  async #load({ served, processId }: Claimant, rounds: readonly Round[]): Promise<Round[]> {
    const { queueId, queue } = served
    const loaded: Round[] = []
    for (const round of rounds) {
      const one = await loadPayloads(this.#site.database, processId, queueId, round, queue)
      if (one) loaded.push(one)
    }
    return loaded
  }

  async #perform(claimant: Claimant, rounds: readonly Round[]): Promise<void> {
    if (rounds.length === 0) return
    const { queue } = claimant.served
    const batch = {
      queue,
      rounds,
      abort: new Abort(),
      describe: describer(undefined, this.#settings.logger),
      holdsLease: () => true,
    }
    const { parts, unbegun } = await performBatch(this.#settings, this.#records, claimant, batch)
    await this.#site.requireOpen()
    for (const settlement of this.#records.takeUnstored()) await this.#store(settlement)
    if (unbegun) throw toUnbegun(queue, unbegun.error)
    await this.#records.tellDeaths(queue)
    // The handler may have changed the payloads that it got.
    for (const part of parts) await this.#perform(claimant, await this.#load(claimant, part))
    await this.#afterFailures(claimant)
  }

  async #store(settlement: Settlement): Promise<void> {
    const { database, client, lockTimeout } = this.#site
    const until = performance.now() + STORING_TIMEOUT
    const ids = settlement.rounds.map(({ id }) => id)
    do {
      const leftovers = client
        ? await storeIn(database, client, [settlement])
        : await patiently(database, lockTimeout, (tx) => storeIn(database, tx, [settlement]))
      if (leftovers) return
      await sleep(STORING_PAUSE)
    } while (performance.now() < until)
    const message = `another transaction holds jobs that were performed, and stays open: ${ids.join(', ')}; end it before drain, or pass it as \`tx\``
    throw new LockstepError('LOCKSTEP_LOCKED', message)
  }

  async #afterFailures({ served }: Claimant): Promise<void> {
    const failed = this.#records.takeFailed()
    if (failed.length === 0) return
    if (!this.#options.retries) throw failed[0]!.error
    const again = failed.filter(({ retryIn }) => retryIn !== null).map(({ id }) => id)
    await makeDue(this.#site.database, served.queueId, again)
  }
}

/** Another try would hardly go better: a test is all that its application does. */
function toUnbegun({ name }: Queue, cause: unknown): LockstepError {
  if (cause instanceof LockstepError) return cause
  const message = `no transaction begins for the queue "${name}": ${summaryOf(cause)}; if the test holds the last connection of its pool, pass its transaction as \`tx\`, or allow the pool another one`
  return new LockstepError('LOCKSTEP_CONNECTION', message, { cause })
}
