import type { Database } from '../postgres/database.ts'
import { UnderWay } from '../promises.ts'
import type { Queue } from '../queue.ts'
import { type Comparison, compare } from '../store/comparison.ts'
import { survey } from '../store/head.ts'
import { LEASED } from '../store/leases.ts'
import { ensureQueue, listQueues, type QueueRow } from '../store/queue.ts'
import { Loop, type Service } from '../worker/lifecycle/service.ts'
import type { Pauses } from '../worker/schedule/admission.ts'
import type { ServerClock } from '../worker/schedule/server-clock.ts'
import type { Shard } from '../worker/schedule/shard.ts'
import type { Timetable } from '../worker/schedule/timetable.ts'
import { ConsumedQueue } from './consumed-queue.ts'

/** ms between two comparisons with the rows of the queues, unless others say that something has changed. */
const COMPARE_EVERY = 10_000
/** ms after which a queue is forgotten that nobody waits for: its shards are looked at until then. */
const LINGER = 10_000
/** Most names of queues whose numbers are kept. */
const MOST_IDS = 10_000
/** ms between tries if the database can't be asked. */
const RETRY_EVERY = 1_000

export interface ConsumedQueuesOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly clock: ServerClock
  readonly pauses: Pauses
  /** ms until maintenance needs another comparison. */
  nextSight(): number
  onCompared(seen: Comparison, answeredAt: number): void
}

/**
 * The queues from which claims have taken jobs, or tried to, as their rows were at the last comparison: it learns of pauses,
 * other numbers of shards, and queues that were made anew.
 */
export class ConsumedQueues implements Service {
  readonly #options: ConsumedQueuesOptions
  readonly #byName = new Map<string, ConsumedQueue>()
  readonly #opening = new Map<string, Promise<ConsumedQueue>>()
  /** Also of queues that nobody takes from here: claims of others are settled by these. The last used come last. */
  readonly #ids = new Map<string, number>()
  readonly #calls = new UnderWay()
  readonly #loop = new Loop(() => this.#pass())
  /** When it compares again, in ms of the monotonic clock. */
  #notBefore = 0

  constructor(options: ConsumedQueuesOptions) {
    this.#options = options
  }

  /** Those from which somebody has taken lately. */
  get all(): ConsumedQueue[] {
    return [...this.#byName.values()]
  }

  /** Those that somebody waits for. */
  get ids(): number[] {
    return [...this.#byName.values()].flatMap(({ waiting, queueId }) => (waiting > 0 ? [queueId] : []))
  }

  async start(): Promise<void> {
    await this.#compare()
    await this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#calls.ended()
  }

  /** A queue, with what is due in it. Creates it if it doesn't exist. */
  async open(queue: Queue): Promise<ConsumedQueue> {
    const known = this.#byName.get(queue.name)
    if (known) return known
    let opening = this.#opening.get(queue.name)
    if (!opening) {
      opening = this.#calls.watch(this.#open(queue)).finally(() => this.#opening.delete(queue.name))
      this.#opening.set(queue.name, opening)
    }
    return opening
  }

  /** Whether it is still what a claim of that name takes from: one that was deleted, or that nobody waited for, is not. */
  isOpen(queue: ConsumedQueue): boolean {
    return this.#byName.get(queue.queue.name) === queue
  }

  /** The number of a queue; undefined if there is none. If it was deleted meanwhile, and its claims with it, maybe an old one. */
  async idOf(name: string): Promise<number | undefined> {
    return this.#ids.get(name) ?? this.idNow(name)
  }

  /** The number that it has by now. */
  async idNow(name: string): Promise<number | undefined> {
    const [row] = await listQueues(this.#options.database, [name])
    if (row) this.#note(row)
    else this.#ids.delete(name)
    return row?.queueId
  }

  rebalanceSoon(): void {
    this.#notBefore = 0
    this.#loop.alarm.ring()
  }

  changed(): void {
    this.rebalanceSoon()
  }

  /** Shards that workers have let go are no business of a consumer. */
  freed(): void {}

  async #open(queue: Queue): Promise<ConsumedQueue> {
    const row = await this.#ensure(queue)
    const consumed = new ConsumedQueue(queue, row.queueId, row.shards)
    this.#byName.set(queue.name, consumed)
    await this.#add(consumed, consumed.shards)
    return consumed
  }

  async #ensure(queue: Queue): Promise<QueueRow> {
    const { database } = this.#options
    await ensureQueue(database, queue.name, queue.shards)
    const [row] = await listQueues(database, [queue.name])
    if (!row) return this.#ensure(queue)
    this.#note(row)
    return row
  }

  #note({ name, queueId }: QueueRow): void {
    this.#ids.delete(name)
    this.#ids.set(name, queueId)
    if (this.#ids.size > MOST_IDS) this.#ids.delete(this.#ids.keys().next().value!)
  }

  /** Finds what is due in shards that are new here. */
  async #add({ queueId }: ConsumedQueue, shards: readonly Shard[]): Promise<void> {
    const { database, timetable } = this.#options
    for (const shard of shards) timetable.add(shard)
    const heads = await survey(
      database,
      LEASED,
      shards.map(({ shard }) => ({ queueId, shard })),
    )
    for (const head of heads) timetable.find(head, head.performIn)
  }

  async #pass(): Promise<void> {
    const left = this.#notBefore - performance.now()
    if (left > 0) return this.#loop.alarm.wait(left)
    await this.#compare().catch(() => {
      this.#notBefore = performance.now() + RETRY_EVERY
    })
  }

  async #compare(): Promise<void> {
    const { database, clock, pauses, timetable, nextSight, onCompared } = this.#options
    const askedAt = performance.now()
    // What is heard from now on may not be seen yet: then another one follows.
    this.#notBefore = askedAt + COMPARE_EVERY
    const names = [...this.#byName.keys()]
    const seen: Comparison = await compare(database, { names, processId: LEASED, shards: [] })
    const answeredAt = performance.now()
    clock.compare(seen, askedAt, answeredAt)
    onCompared(seen, answeredAt)
    if (this.#notBefore > 0) this.#notBefore = answeredAt + Math.min(COMPARE_EVERY, nextSight())
    const rows = new Map(seen.queues.map((row) => [row.name, row]))
    for (const name of names) await this.#see(name, rows.get(name))
    if (pauses.see(seen.queues)) timetable.admissionChanged()
  }

  /** A queue that was deleted is made again for those who wait for its jobs, or else by the next claim. */
  async #see(name: string, row: QueueRow | undefined): Promise<void> {
    const { timetable } = this.#options
    const known = this.#byName.get(name)!
    if (row) this.#note(row)
    else this.#ids.delete(name)
    if (known.isForgotten(row ? LINGER : 0)) {
      this.#byName.delete(name)
      for (const shard of known.shards) timetable.remove(shard)
    } else if (row?.queueId === known.queueId) {
      for (const shard of known.shrink(row.shards)) timetable.remove(shard)
      const added = known.grow(row.shards)
      if (added.length > 0) await this.#add(known, added)
    } else {
      const { queueId, shards } = row ?? (await this.#ensure(known.queue))
      for (const shard of known.shards) timetable.remove(shard)
      known.renew(queueId, shards)
      await this.#add(known, known.shards)
    }
  }
}
