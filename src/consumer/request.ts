import type { ConsumedQueue } from './consumed-queue.ts'
import type { ClaimedJob, ClaimSettings } from './options.ts'

type Wanted = Pick<ClaimSettings, 'count' | 'lease'>

/** Characters of payloads that one call is answered with, unless one job has more: they are in memory, and go over HTTP at once. */
const MOST_CHARACTERS = 32 * 1024 * 1024
/** The part of a lease that a call may use up to be given more, and that it may use up without getting it back. */
const [LONGEST_GATHERING, LEAST_EXTENDED] = [1 / 4, 1 / 10]
/** ms that a claim may take, however short its lease is. */
const QUICK = 100

/** A call of `claim` that has not been answered. */
export class Request {
  /** In the order in which they are looked at. */
  readonly queues: readonly ConsumedQueue[]
  readonly lease: number
  readonly answer: Promise<ClaimedJob[]>
  /** It waits if nothing is known to be due. So does each until somebody has looked. */
  isPatient = true
  /** A claim for it is under way, or a look that has to come first. */
  isAsking = false
  /** How many of its first queues were looked into for it. */
  looked = 0
  /** Something was known to be due for it, so nobody has looked. */
  isTrying = false
  /** Once that turned out to be gone, or it was answered. */
  readonly tried: Promise<void>
  readonly #count: number
  readonly #taken: ClaimedJob[] = []
  #size = 0
  #largest = 0
  /** When the first claim was sent that brought it a job, in ms of the monotonic clock. */
  #leasedAt = Number.POSITIVE_INFINITY
  #resolve!: (jobs: ClaimedJob[]) => void
  #reject!: (reason: unknown) => void
  #endTrial!: () => void
  #isOpen = true

  constructor(queues: readonly ConsumedQueue[], { count, lease }: Wanted) {
    this.queues = queues
    this.lease = lease
    this.#count = count
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.tried = new Promise((resolve) => {
      this.#endTrial = resolve
    })
  }

  /** How many more jobs it may be given; 0 once it was answered, or another job as large as the largest would not fit. */
  get left(): number {
    const isFull = this.hasTaken && this.#size + this.#largest > MOST_CHARACTERS
    return this.#isOpen && !isFull ? this.#count - this.#taken.length : 0
  }

  /** Whether it may be given a job of so many characters. If that would not fit, it is full. */
  hasRoomFor(size: number): boolean {
    this.#largest = Math.max(this.#largest, size)
    return this.left > 0
  }

  /** Whether its leases may run while it is given more. */
  get hasTime(): boolean {
    return this.#leaseUsed <= Math.max(this.lease * LONGEST_GATHERING, QUICK)
  }

  /** Whether it was given jobs so long ago that their leases have to begin anew. Those of no length are over however soon it is. */
  get needsExtension(): boolean {
    return this.lease > 0 && this.#leaseUsed > Math.max(this.lease * LEAST_EXTENDED, QUICK)
  }

  /** ms; negative while there is no lease. */
  get #leaseUsed(): number {
    return performance.now() - this.#leasedAt
  }

  get hasTaken(): boolean {
    return this.#taken.length > 0
  }

  endTrial(): void {
    this.isTrying = false
    this.#endTrial()
  }

  /** `size`: characters of its payloads. `leasedAt`: when its claim was sent, in ms of the monotonic clock. */
  give(job: ClaimedJob, size: number, leasedAt: number): void {
    this.#taken.push(job)
    this.#size += size
    this.#leasedAt = Math.min(this.#leasedAt, leasedAt)
  }

  /** Answers with what it has been given, in the order of its queues: what came later may be of an earlier one. */
  end(): void {
    this.#isOpen = false
    const places = new Map(this.queues.map(({ queue: { name } }, place) => [name, place]))
    this.#resolve(this.#taken.sort((a, b) => places.get(a.queue)! - places.get(b.queue)!))
    this.endTrial()
  }

  /** If it has been given something, answers with that all the same. */
  fail(reason: unknown): void {
    if (!this.hasTaken) this.#reject(reason)
    this.end()
  }

  /** Nobody waits for the answer. Returns what it has been given. */
  abandon(reason: unknown): ClaimedJob[] {
    this.#isOpen = false
    this.#reject(reason)
    this.endTrial()
    return this.#taken.splice(0)
  }
}
