import type { Claim } from '../../store/claim.ts'
import type { Lane } from './lane.ts'
import { LONGEST_PAUSE, pauseAfter } from './pauses.ts'

/**
 * ms after which a limit is tried again at the latest, and ms of that for each lane that waits in the same queue: someone may have
 * raised or removed it.
 */
const LONGEST_TRUST = 5_000
const TRUST_PER_LANE = 50

/**
 * The lanes of a queue in which limits keep something waiting, and whether the limits of the queue itself have room. While they have none,
 * its lanes are due, but not asked: so schedulers choose among all of them whose turn it is when there is a place again.
 */
export class WithheldLanes {
  readonly #lanes = new Set<Lane>()
  /** Until when the queue's limits have no room, as the last claim has met them, in µs of the server's clock; 0: they have some. */
  #fullUntil = 0
  /** How many lanes may be asked all the same. */
  #places = 0
  #tries = 0
  /** Whether it's a rate that has no room: rounds that end leave none. */
  #isRated = false
  /** Whether a lane is asked because the time is over, not only since rounds have ended. */
  #isTrial = false
  #freedAt = 0

  /** How many lanes of the queue may be asked. */
  get places(): number {
    return this.#fullUntil > 0 ? this.#places : Number.POSITIVE_INFINITY
  }

  get isFull(): boolean {
    return this.places === 0
  }

  /** When one lane is to be asked again, in µs of the server's clock; 0: all may be asked. */
  get fullUntil(): number {
    return this.#fullUntil
  }

  /** Whether rounds have ended since, whose places a claim that had begun may have missed. */
  hasFreed(since: number): boolean {
    return this.#freedAt >= since
  }

  /** A claim of a lane begins. */
  asked(): void {
    this.#places = Math.max(0, this.#places - 1)
  }

  /** A claim of a lane has ended. */
  met({ waits, rounds }: Pick<Claim, 'waits' | 'rounds'>, claimedAt: number, now: number): void {
    const own = waits?.limits.find(({ tenant }) => tenant === null)
    // One that has taken the place of a round that has ended doesn't know whether there are more.
    if (!own && (this.#isTrial || rounds.length === 0)) this.open()
    if (!own || (own.until === null && this.hasFreed(claimedAt))) return
    this.#isRated = own.until !== null
    this.#isTrial = false
    this.#tries += 1
    const until = own.until ?? now + pauseAfter(this.#tries, LONGEST_PAUSE) * 1_000
    this.#fullUntil = Math.min(until, now + this.trust * 1_000)
    this.#places = 0
  }

  /** There may be room. */
  open(): void {
    this.#fullUntil = 0
    this.#places = 0
    this.#tries = 0
    this.#isRated = false
    this.#isTrial = false
  }

  /** Its time is over: one lane is asked, and in case nothing comes of that, another one later. */
  askOne(now: number): void {
    if (this.#fullUntil === 0) return
    this.#isTrial = true
    this.#places = 1
    this.#fullUntil = now + LONGEST_PAUSE * 1_000
  }

  /** Someone has changed the limits. Returns the lanes that may have something to claim now. */
  reopen(): readonly Lane[] {
    this.open()
    const lanes = this.held
    for (const { withholding } of lanes) withholding.free()
    return lanes
  }

  get size(): number {
    return this.#lanes.size
  }

  get held(): Lane[] {
    return [...this.#lanes].filter(({ shard }) => shard.isHeld)
  }

  /** ms for which the queue's limits are taken to be as they were. */
  get trust(): number {
    return Math.max(LONGEST_TRUST, TRUST_PER_LANE * this.#lanes.size)
  }

  see(lane: Lane): void {
    if (lane.withholding.isEmpty) this.#lanes.delete(lane)
    else this.#lanes.add(lane)
  }

  /**
   * So many rounds have ended, of these tenants; undefined: nobody knows. Of the lanes that wait for tenants' places, returns as many, those
   * with the oldest jobs.
   */
  free(rounds: number, tenants: ReadonlySet<string | null> | undefined, now: number): readonly Lane[] {
    this.#freedAt = now
    if (!this.#isRated) this.#places += rounds
    const waiting: Lane[] = []
    for (const lane of this.#lanes) {
      if (!lane.shard.isHeld) this.#lanes.delete(lane)
      else if (lane.withholding.waitsFor(tenants)) waiting.push(lane)
    }
    const freed = waiting.sort((a, b) => a.withholding.from - b.withholding.from).slice(0, rounds)
    for (const { withholding } of freed) withholding.free(tenants)
    return freed
  }
}
