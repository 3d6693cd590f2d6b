import type { Round } from '../../store/claim.ts'
import type { Retention } from '../membership/membership.ts'
import { LONGEST_PREFETCHED } from './prefetch.ts'

/** The rounds that one claim brought. Slots take batches of them in the order in which the jobs are due. */
export class Portion {
  /** The retention of its rounds. */
  readonly retention: Retention
  readonly rounds: readonly Round[]
  /** How many jobs the claim asked for. */
  readonly asked: number
  /** ms of the monotonic clock. */
  readonly claimedAt = performance.now()
  /** Until when batches of it may begin. */
  readonly until: number
  /** Goes off at `until`. */
  timer: NodeJS.Timeout | undefined
  #begun = 0
  #wentBack = false
  #ended = 0

  constructor(retention: Retention, rounds: readonly Round[], asked: number, longest = LONGEST_PREFETCHED) {
    this.retention = retention
    this.rounds = rounds
    this.asked = asked
    this.until = this.claimedAt + longest
  }

  get isEmpty(): boolean {
    return this.#begun === this.rounds.length
  }

  get isBegun(): boolean {
    return this.#begun > 0
  }

  /** How many jobs have not begun. */
  get size(): number {
    return this.rounds.length - this.#begun
  }

  /** When the next job was due; Infinity if none is left. */
  get performIn(): number {
    return this.rounds[this.#begun]?.performIn ?? Number.POSITIVE_INFINITY
  }

  /** Takes the next batch: jobs whose payloads came with the claim, or one job whose payloads must be loaded, alone. */
  take(batchSize: number): readonly Round[] {
    const from = this.#begun
    const most = Math.min(from + batchSize, this.rounds.length)
    let to = Math.min(from + 1, most)
    while (to < most && !this.rounds[from]!.toLoad && !this.rounds[to]!.toLoad) to += 1
    this.#begun = to
    if (this.isEmpty) clearTimeout(this.timer)
    return from === 0 && this.isEmpty ? this.rounds : this.rounds.slice(from, to)
  }

  /** ms since the claim; Infinity if a part was released. */
  get took(): number {
    return this.#wentBack ? Number.POSITIVE_INFINITY : performance.now() - this.claimedAt
  }

  /** Takes everything that has not begun. */
  takeRest(): readonly Round[] {
    const rest = this.rounds.slice(this.#begun)
    this.#wentBack ||= rest.length > 0
    this.#begun = this.rounds.length
    clearTimeout(this.timer)
    return rest
  }

  /** `count` of its rounds have ended, or were released. Returns whether none is left. */
  ended(count: number): boolean {
    this.#ended += count
    return this.#ended === this.rounds.length
  }
}
