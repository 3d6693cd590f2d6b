import type { Claim, Round } from '../../store/claim.ts'
import type { Lane } from './lane.ts'
import { LONGEST_PAUSE, pauseAfter } from './pauses.ts'

/**
 * ms after which a limit is tried again at the latest, and ms of that for each lane that waits in the same queue: someone may have
 * raised or removed it.
 */
const LONGEST_TRUST = 5_000
const TRUST_PER_LANE = 50

/** The lanes of a queue in which limits keep something waiting. */
export class WithheldLanes {
  readonly #lanes = new Set<Lane>()
  #fullUntil = 0
  #tries = 0
  #freedAt = 0

  /**
   * Until when the limits of the queue itself have no room, as the last claim of any of its lanes has met them; in µs of the
   * server's clock. Then one lane is not asked after the other.
   */
  get fullUntil(): number {
    return this.#fullUntil
  }

  /** Whether rounds have ended since, whose places a claim that had begun may have missed. */
  hasFreed(since: number): boolean {
    return this.#freedAt >= since
  }

  /** A claim of the queue has ended. Returns whether the limits of the queue have no room now. */
  met({ waits, rounds }: Pick<Claim, 'waits' | 'rounds'>, claimedAt: number, now: number): boolean {
    const own = waits?.limits.find(({ tenant }) => tenant === null)
    if (!own || this.hasFreed(claimedAt)) {
      if (rounds.length > 0) this.open()
      return false
    }
    this.#tries += 1
    const until = own.until ?? now + pauseAfter(this.#tries, LONGEST_PAUSE) * 1_000
    this.#fullUntil = Math.min(until, now + this.trust * 1_000)
    return true
  }

  /** There may be room. */
  open(): void {
    this.#fullUntil = 0
    this.#tries = 0
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

  /** These rounds have ended. Returns as many lanes that wait for their places, first those with the oldest jobs. */
  free(rounds: readonly Round[], now: number): readonly Lane[] {
    this.#freedAt = now
    if (this.#lanes.size === 0) return []
    const tenants = new Set([null, ...rounds.map(({ tenant }) => tenant)])
    const waiting: Lane[] = []
    for (const lane of this.#lanes) {
      if (!lane.shard.isHeld) this.#lanes.delete(lane)
      else if (lane.withholding.waitsFor(tenants)) waiting.push(lane)
    }
    if (waiting.length > 0) this.open()
    const freed = waiting.sort((a, b) => a.withholding.from - b.withholding.from).slice(0, rounds.length)
    for (const { withholding } of freed) withholding.free(tenants)
    return freed
  }
}
