import type { Claim, LaneKey } from '../../store/claim.ts'
import { type Bell, LONGEST_WAIT } from '../lifecycle/bell.ts'
import { type Admission, OPEN } from './admission.ts'
import { Appointments } from './appointments.ts'
import type { DueLane } from './due-lane.ts'
import { FullQueues } from './full-queues.ts'
import { Joinable } from './joinable.ts'
import type { Instant, Lane } from './lane.ts'
import type { ServedQueue } from './served-queue.ts'
import type { ServerClock } from './server-clock.ts'
import type { Shard } from './shard.ts'
import { Sleepers } from './sleepers.ts'

/**
 * The shards of this process and when their jobs are due: slots pick from it, and sleep on it.
 *
 * Lanes that are due are in a list, in the order of the queues, their shards and lanes; those to come are in a heap. Any
 * change to a lane wakes one of the sleeping slots, if the lane is due then. A slot sleeps only if nothing is due that it
 * could take. So no job waits while a slot sleeps that could take it, and no more slots wake than there is work for.
 */
export class Timetable {
  readonly #clock: ServerClock
  readonly #admission: Admission
  readonly #shards = new Map<string, Shard>()
  readonly #due: DueLane[] = []
  readonly #joinable = new Joinable()
  readonly #instant: Instant = { now: 0 }
  /** Whether some slots may not pick everything that is due. */
  #isMixed = false
  readonly #full = new FullQueues()
  readonly #toCome = new Appointments()
  readonly #sleepers = new Sleepers()
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY

  constructor(clock: ServerClock, admission = OPEN) {
    this.#clock = clock
    this.#admission = admission
  }

  get shards(): Iterable<Shard> {
    return this.#shards.values()
  }

  get size(): number {
    return this.#shards.size
  }

  get dueLanes(): number {
    return this.#due.length
  }

  /** Sleeping slots per lane that is due. */
  get spareSlots(): number {
    return Math.floor(this.#sleepers.size / Math.max(1, this.#due.length))
  }

  /** Whether anything is due that may be picked. */
  get hasDue(): boolean {
    this.#advance()
    return this.#due.some(({ of }) => isOpen(of))
  }

  /** Whether anything is due, also what may not be picked while enough slots serve its queue. */
  get hasWaiting(): boolean {
    this.#advance()
    return this.#due.some(({ of: lane }) => lane.shard.served.isWanted && lane.mayBeAsked)
  }

  /** Whether a slot is asleep that could take what is found. */
  get couldTake(): boolean {
    if (this.#sleepers.size === 0) return false
    for (const { served, slot } of this.#shards.values())
      if (served.room > 0 && (slot === undefined || this.#sleepers.has(slot))) return true
    return false
  }

  /** The lanes to poll: nothing in them is known to be due, and no claim of them is under way. */
  get quietLanes(): Lane[] {
    return [...this.#shards.values()].flatMap(({ lanes }) =>
      [...lanes.values()].filter((lane) => !lane.isListed && !lane.claim),
    )
  }

  get(queueId: number, shard: number): Shard | undefined {
    return this.#shards.get(`${queueId}:${shard}`)
  }

  /** The queues of the shards. */
  get queues(): ReadonlySet<ServedQueue> {
    return new Set(Array.from(this.#shards.values(), ({ served }) => served))
  }

  /** The queues whose first shard is held: of several processes, one has that of a queue. */
  get ledQueues(): ServedQueue[] {
    return [...this.#shards.values()].flatMap(({ served, shard }) => (shard === 0 ? [served] : []))
  }

  /** A lane of one of our shards. From now on, a new lane is known in all shards of its queue, unless there are too many. */
  lane({ queueId, shard, lane }: LaneKey): Lane | undefined {
    const found = this.get(queueId, shard)
    if (found) this.meet(found.served, lane)
    return found?.lane(lane)
  }

  /** There may be jobs in a lane of any shard. Returns whether that is news. */
  meet(served: ServedQueue, lane: number): boolean {
    if (!served.meets(lane)) return false
    for (const shard of this.#shards.values()) if (shard.served === served) shard.lane(lane)
    return true
  }

  add(shard: Shard): void {
    shard.isHeld = true
    shard.instant = this.#instant
    this.#isMixed ||= shard.slot !== undefined || shard.served.queue.concurrency !== undefined
    this.#shards.set(`${shard.served.queueId}:${shard.shard}`, shard)
  }

  remove(shard: Shard): void {
    shard.isHeld = false
    this.#shards.delete(`${shard.served.queueId}:${shard.shard}`)
    for (const lane of shard.lanes.values()) {
      this.#strike(lane)
      this.#joinable.see(lane, false)
    }
    if (this.#shards.size > 0) return
    clearTimeout(this.#timer)
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  clear(): void {
    for (const shard of [...this.#shards.values()]) this.remove(shard)
    this.#full.clear()
  }

  /**
   * Passes on the time of a job from a wake-up or a settled round. Returns whether it was news about one of our
   * shards.
   */
  notice(key: LaneKey, performIn: number): boolean {
    const found = this.lane(key)
    if (!found) return false
    const news = found.notice(performIn)
    this.file(found)
    return news
  }

  /** Passes on the first job of a lane that a full look has found. */
  find(key: LaneKey, performIn: number): void {
    const found = this.lane(key)
    if (!found) return
    found.find(performIn)
    this.file(found)
  }

  /** Passes on a job that a look has found among those no one has claimed. */
  sight(key: LaneKey, performIn: number): void {
    const found = this.lane(key)
    if (found?.sight(performIn, this.#clock.now())) this.file(found)
  }

  /** A lane has changed: puts it where it belongs now, and wakes a slot if it is due. */
  file(lane: Lane): void {
    if (!lane.shard.isHeld) return
    lane.candidate.update()
    const now = this.#clock.now()
    const notBefore = this.#admission.notBefore(lane.key)
    this.#joinable.see(lane, notBefore <= now)
    const head = Math.max(lane.head, notBefore)
    if (head <= now) this.#list(lane)
    else {
      this.#strike(lane)
      if (head < Number.POSITIVE_INFINITY) this.#expect(lane, head)
    }
  }

  /** Admission says something else about lanes than before. */
  admissionChanged(): void {
    for (const { lanes } of this.#shards.values()) for (const lane of lanes.values()) this.file(lane)
  }

  /** A claim of a lane has ended: what it says of limits may concern others of the queue. */
  heed({ shard: { served }, claimedAt, withholding }: Lane, claim: Claim): void {
    served.withheldLanes.met(claim, claimedAt, this.#clock.now())
    // If something could be claimed against what they were, they have changed.
    if (withholding.unmet.length > 0 && claim.rounds.length > 0)
      for (const lane of served.withheldLanes.reopen()) this.file(lane)
    if (served.withheldLanes.fullUntil > 0 || this.#full.has(served)) this.#seeLimits(served)
  }

  /** So many rounds of a queue have ended, of these tenants; undefined: nobody knows. What waits for their places may go. */
  freed(served: ServedQueue, rounds: number, tenants?: ReadonlySet<string | null>): void {
    for (const lane of served.withheldLanes.free(rounds, tenants, this.#clock.now())) this.file(lane)
    if (served.withheldLanes.fullUntil > 0) this.#seeLimits(served)
  }

  /** Waits until a lane is asked again, if the limits of the queue have no room, and wakes slots for the lanes that may be asked. */
  #seeLimits(served: ServedQueue): void {
    this.#full.see(served, this.#clock.now(), () => this.#askOne(served))
    let { places } = served.withheldLanes
    for (const { of: lane } of this.#due) {
      if (places === 0) return
      if (lane.shard.served !== served || !isOpen(lane) || !lane.isReady) continue
      this.#sleepers.wake(lane.shard.slot)
      places -= 1
    }
  }

  #askOne(served: ServedQueue): void {
    // Its shards may have gone to other processes.
    if (this.queues.has(served)) served.withheldLanes.askOne(this.#clock.now())
    else served.withheldLanes.open()
    this.#seeLimits(served)
  }

  /** The lanes that a slot may pick now, at the end those that it may wait for. The list changes with the timetable. */
  due(slot: number): readonly DueLane[] {
    // Their lags are as of this moment.
    this.#instant.now = this.#advance()
    const due = this.#joinable.isEmpty
      ? this.#due
      : [...this.#due, ...Array.from(this.#joinable.lanes(), ({ candidate }) => candidate)]
    if (!this.#isMixed && this.#full.isEmpty) return due
    return due.filter(({ of: lane }) => isOpen(lane) && (lane.shard.slot ?? slot) === slot)
  }

  /** Sleeps while nothing is due for a slot: until `bell` rings, or for `pause` ms. */
  sleep(slot: number, bell: Bell, pause?: number): Promise<void> {
    return this.#sleepers.sleep(slot, bell, pause)
  }

  wakeAll(): void {
    this.#sleepers.wakeAll()
  }

  /** A slot begins to serve a queue. */
  begins(served: ServedQueue): void {
    served.slots += 1
  }

  /** A slot has served a queue. If the queue has a limit, another slot may begin. */
  ends(served: ServedQueue): void {
    served.slots -= 1
    if (served.room !== 1) return
    const open = this.#due.find(
      ({ of: lane }) => lane.shard.served === served && isOpen(lane) && lane.isReady,
    )
    if (open) this.#sleepers.wake(open.of.shard.slot)
  }

  #list(lane: Lane): void {
    this.#toCome.cancel(lane)
    if (!lane.isListed) {
      this.#due.splice(this.#placeOf(lane), 0, lane.candidate)
      lane.isListed = true
      this.#joinable.listed(lane)
    }
    // Even if it was listed already: the slot that woke for it may have found its queue full.
    if (this.#sleepers.size > 0 && isOpen(lane) && lane.isReady) this.#sleepers.wake(lane.shard.slot)
  }

  #strike(lane: Lane): void {
    this.#toCome.cancel(lane)
    if (!lane.isListed) return
    this.#due.splice(this.#placeOf(lane), 1)
    lane.isListed = false
    this.#joinable.struck(lane)
  }

  /** Its place among the lanes that are due, or where it would be. */
  #placeOf(lane: Lane): number {
    let [low, high] = [0, this.#due.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (inOrder(this.#due[middle]!.of, lane) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  #expect(lane: Lane, at: number): void {
    this.#toCome.make(lane, at)
    if (at < this.#timerAt) this.#setTimer()
  }

  /** Lists what has become due, and sets the timer for what comes next. Returns the time. */
  #advance(): number {
    const now = this.#clock.now()
    if (this.#toCome.next > now) return now
    // Meanwhile, limits may have put them off.
    for (const lane of this.#toCome.due(now)) this.file(lane)
    this.#setTimer()
    return now
  }

  #setTimer(): void {
    clearTimeout(this.#timer)
    this.#timerAt = this.#toCome.next
    if (this.#timerAt === Number.POSITIVE_INFINITY) return
    // Timers cut off the fraction of a ms. So one may go off early and is set again, but none adds up to a ms of lag.
    const pause = Math.max(0, (this.#timerAt - this.#clock.now()) / 1000)
    this.#timer = setTimeout(
      () => {
        this.#advance()
        this.#setTimer()
      },
      Math.min(pause, LONGEST_WAIT),
    )
    // A job that is due later must not keep the process of a stopped worker alive.
    this.#timer.unref()
  }
}

/** Whether a slot may pick it: its queue has room for another one, and limits don't keep all of it waiting. */
function isOpen(lane: Lane): boolean {
  return lane.shard.served.room > 0 && lane.mayBeAsked
}

/** By the order of the queues, then by shard and lane. */
function inOrder(a: Lane, b: Lane): number {
  return (
    a.shard.served.place - b.shard.served.place ||
    a.key.queueId - b.key.queueId ||
    a.key.shard - b.key.shard ||
    a.key.lane - b.key.lane
  )
}
