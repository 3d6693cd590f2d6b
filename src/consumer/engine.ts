import { Gathered } from '../gathered.ts'
import { Instruments } from '../instruments.ts'
import type { Database } from '../postgres/database.ts'
import { refuseDistributed } from '../postgres/distribution.ts'
import { openDatabase } from '../postgres/open-database.ts'
import { requireMigrated } from '../postgres/release.ts'
import { requireSequences } from '../postgres/sequences.ts'
import type { ReadPayload, Round } from '../store/claim.ts'
import { LEASED } from '../store/leases.ts'
import { readLockTimeout } from '../store/patience.ts'
import { ShardLocks } from '../worker/assignment/shard-locks.ts'
import { passOn } from '../worker/discovery/hearing.ts'
import { Listener } from '../worker/discovery/listener.ts'
import { Looks } from '../worker/discovery/looks.ts'
import { Poller } from '../worker/discovery/poller.ts'
import { stopAll, together } from '../worker/lifecycle/service.ts'
import { consumersMaintenance } from '../worker/maintenance/all.ts'
import { Maintainer } from '../worker/maintenance/maintainer.ts'
import type { WorkerHome } from '../worker/options.ts'
import { describer } from '../worker/performing/description.ts'
import { Pauses } from '../worker/schedule/admission.ts'
import { ServerClock } from '../worker/schedule/server-clock.ts'
import { tenantWaits } from '../worker/schedule/tenant-waits.ts'
import { Timetable } from '../worker/schedule/timetable.ts'
import { Tally } from '../worker/settling/tally.ts'
import type { ConsumedQueue } from './consumed-queue.ts'
import { ConsumedQueues } from './consumed-queues.ts'
import { LeaseEnds } from './lease-ends.ts'
import type { ConsumerSettings } from './options.ts'
import { Requests } from './requests.ts'
import { Settler } from './settler.ts'
import { Taker } from './taker.ts'

/** Claims under way at once. */
const TAKERS = 4
/** Most looks for requests that go together. */
const MOST_LOOKS = 1_000
/** Connections: for claims, for what settles (two of each kind, and some that wait), and for looks, leases and counts. */
const CONNECTIONS = TAKERS + 12
/** ms between comparisons while something is to be seen. */
const REBALANCE_INTERVAL = 500
/** ms that a call to the database may take before its connection counts as broken. */
const CALL_TIMEOUT = 10_000

/** Creates the parts of a consumer and connects them, starts and stops them. */
export class ConsumerEngine {
  readonly queues: ConsumedQueues
  readonly requests: Requests
  readonly settler: Settler
  readonly #home: WorkerHome
  readonly #database: Database
  readonly #timetable: Timetable
  readonly #locks: ShardLocks
  readonly #listener: Listener
  readonly #poller: Poller
  readonly #leaseEnds: LeaseEnds
  readonly #maintainer: Maintainer
  readonly #tally: Tally
  readonly #takers: readonly Taker[]
  readonly #looks: Gathered<ConsumedQueue, undefined>
  #lockTimeout = 1

  constructor(settings: ConsumerSettings, home: WorkerHome, read?: ReadPayload) {
    const { config, directConfig, schema, logger } = home
    const { poll, formatError, triesHeader } = settings
    const clock = new ServerClock()
    const pauses = new Pauses()
    const database = openDatabase(
      { ...config, max: CONNECTIONS },
      { schema, logger, callTimeout: CALL_TIMEOUT, use: 'own' },
    )
    const timetable = new Timetable(clock, pauses)
    const looks = new Looks({ database, timetable, clock })
    this.#looks = new Gathered(async (queues) => {
      await looks.into(new Set(queues))
      return queues.map(() => undefined)
    }, MOST_LOOKS)
    this.#home = home
    this.#database = database
    this.#timetable = timetable
    const instruments = new Instruments(home.instrumentation, logger)
    const all = consumersMaintenance({
      logger,
      rebalanceInterval: REBALANCE_INTERVAL,
      ledQueues: () => this.queues.all,
      tenantWaits: () => tenantWaits(timetable.shards, clock.now()),
      onGone: () => this.#poller.fullScanSoon(),
      onRemoved: () => this.queues.rebalanceSoon(),
      instruments,
      onExpired: (queueId, payloads) => this.#tally.add(queueId, 0, 0, payloads),
    })
    this.#maintainer = new Maintainer({ database, logger, instruments, all, onFailure: () => {} })
    this.queues = new ConsumedQueues({
      database,
      timetable,
      clock,
      pauses,
      nextSight: () => this.#maintainer.nextSight,
      onCompared: (seen, at) => this.#maintainer.see(seen, at),
    })
    this.requests = new Requests(timetable)
    this.#locks = new ShardLocks(directConfig, schema, logger, () => this.#poller.flagLost())
    this.#listener = new Listener(directConfig, schema, logger, (message) =>
      passOn(message, { assigner: this.queues, poller: this.#poller }),
    )
    this.#poller = new Poller({
      database,
      timetable,
      looks,
      locks: this.#locks,
      logger,
      queues: this.queues,
      poll,
      hears: () => this.#listener.hears,
      processId: () => LEASED,
      onFailure: () => {},
    })
    this.#leaseEnds = new LeaseEnds(database, logger)
    this.#tally = new Tally(database)
    this.settler = new Settler({
      database,
      describe: describer(formatError, logger),
      triesHeader,
      lockTimeout: () => this.#lockTimeout,
      onAgain: (leftovers) => {
        for (const { queueId, shard, lane, performIn } of leftovers)
          timetable.notice({ queueId, shard: shard!, lane: lane! }, performIn!)
      },
      onEnded: (queueId, failed) => this.#tally.add(queueId, 1, Number(failed)),
      onFreed: (queueId) => {
        const first = timetable.get(queueId, 0)
        if (first) timetable.freed(first.served, 1)
      },
      onExpired: (queueId, payloads) => {
        this.#tally.add(queueId, 0, 0, payloads)
        const queue = this.queues.all.find((one) => one.queueId === queueId)?.queue.name
        if (queue !== undefined) instruments.tell('expire', { queue, payloads })
      },
    })
    const taking = { database, timetable, requests: this.requests, clock, logger, poll, triesHeader, read }
    this.#takers = Array.from(
      { length: TAKERS },
      (_, index) =>
        new Taker({
          ...taking,
          index,
          look: this.look,
          onIdle: () => this.#poller.slotIdle(),
          onLeased: (lease) => this.#leaseEnds.begun(lease),
          release: (queue, rounds) => this.release(queue, rounds),
          extend: ({ queueId }, { id, fence }, lease) => this.settler.extend({ queueId, id, fence }, lease),
          expire: (queue, rounds) => this.#expire(queue, rounds),
        }),
    )
  }

  /** If this fails, `stop` ends whatever has started. */
  async start(): Promise<void> {
    const database = this.#database
    await requireMigrated(database, this.#home.logger)
    await refuseDistributed((text, values) => database.query(text, values), database.schema)
    await requireSequences(database)
    this.#lockTimeout = await readLockTimeout(database)
    await together([this.queues.start(), this.#locks.start(), this.#listener.start()])
    await this.#locks.requireDatabase(database)
    for (const service of [this.#tally, this.#leaseEnds, this.#maintainer, this.#poller, ...this.#takers])
      await service.start()
  }

  /** Nobody may wait any more. */
  async stop(): Promise<void> {
    const { logger } = this.#home
    this.#timetable.wakeAll()
    await stopAll([...this.#takers], logger)
    await stopAll([this.queues, this.#poller, this.#leaseEnds, this.#maintainer, this.#tally], logger)
    await stopAll([this.#listener, this.#locks], logger)
    this.#timetable.clear()
    await this.#database.pool.end()
  }

  /** Looks for due jobs of a queue, from its cursors on. */
  readonly look = (queue: ConsumedQueue): Promise<unknown> => this.#looks.add(queue)

  /** Nobody has been handed these rounds. If they can't be released, their leases end. Resolves when that has been tried. */
  release({ queueId, queue }: ConsumedQueue, rounds: readonly Pick<Round, 'id' | 'fence'>[]) {
    const released = rounds.map(({ id, fence }) =>
      this.settler
        .release({ queueId, id, fence })
        .catch((error: Error) =>
          this.#home.logger.warn({ error: error.message, queue: queue.name, id }, 'releasing a job failed'),
        ),
    )
    return Promise.all(released)
  }

  /** If they can't be settled, their leases end. */
  #expire({ queueId, queue }: ConsumedQueue, rounds: readonly Round[]): void {
    for (const { id, fence, expired } of rounds)
      this.settler
        .expire({ queueId, id, fence }, expired)
        .catch((error: Error) =>
          this.#home.logger.warn(
            { error: error.message, queue: queue.name, id },
            'ending an expired job failed',
          ),
        )
  }
}
