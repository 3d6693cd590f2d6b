import type { Database } from '../../postgres/database.ts'
import { type Head, look, type Sight } from '../../store/head.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'
import type { ServerClock } from '../schedule/server-clock.ts'
import type { Timetable } from '../schedule/timetable.ts'
import { Lateness } from './lateness.ts'

export interface LooksOptions {
  readonly database: Database
  readonly timetable: Timetable
  readonly clock: ServerClock
}

/** What looks find: passes it on to the timetable, and learns how late jobs are committed. */
export class Looks {
  readonly #options: LooksOptions
  readonly #lateness = new Lateness()

  constructor(options: LooksOptions) {
    this.#options = options
  }

  /**
   * The cheap look, into the lanes of these queues of which nothing is known to be due, and no claim is under way. What it finds
   * to be due is due by our clock, too: that may have been behind.
   */
  async into(queues: ReadonlySet<ServedQueue>): Promise<void> {
    const { database, timetable, clock } = this.#options
    const span = this.#lateness.span(performance.now())
    const lanes = timetable.quietLanes
      .filter(({ shard }) => queues.has(shard.served))
      .map((lane) => ({ key: lane.key, cursor: lane.before(span) }))
    const open = [...queues].filter((served) => served.mayMeetTenants)
    if (lanes.length === 0 && open.length === 0) return
    const askedAt = performance.now()
    const sight = await look(
      database,
      lanes,
      open.map(({ queueId }) => queueId),
    )
    clock.compare(sight, askedAt, performance.now())
    for (const head of sight.heads) {
      this.#noteLateness(head)
      timetable.sight(head, head.performIn)
    }
    // Who is new may have come long after the others, and must not wait for the next look.
    const news = this.#meet(open, sight.tenantLanes)
    if (news.size > 0) await this.into(news)
  }

  /** What a full look has found. */
  find(heads: readonly Head[]): void {
    for (const head of heads) {
      this.#noteLateness(head)
      this.#options.timetable.find(head, head.performIn)
    }
  }

  /** What a message tells. */
  hear(head: Head): void {
    this.#noteLateness(head)
    this.#options.timetable.notice(head, head.performIn)
  }

  /** Returns the queues in which any of the lanes that tenants have is new. */
  #meet(queues: readonly ServedQueue[], tenantLanes: Sight['tenantLanes']): Set<ServedQueue> {
    const news = new Set<ServedQueue>()
    for (const { queueId, lane } of tenantLanes) {
      const served = queues.find((one) => one.queueId === queueId)
      if (served && this.#options.timetable.meet(served, lane)) news.add(served)
    }
    return news
  }

  #noteLateness(head: Head): void {
    const late = this.#options.timetable.lane(head)?.latenessOf(head.performIn) ?? 0
    if (late > 0) this.#lateness.note(late, performance.now())
  }
}
