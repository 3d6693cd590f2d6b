import type { ConsumedQueue } from './consumed-queue.ts'
import type { ClaimedJob, ClaimSettings } from './options.ts'

type Wanted = Pick<ClaimSettings, 'count' | 'lease'>

/** A call of `claim` that has not been answered. */
export class Request {
  /** In the order in which they are looked at. */
  readonly queues: readonly ConsumedQueue[]
  readonly lease: number
  readonly answer: Promise<ClaimedJob[]>
  /** It waits if nothing is known to be due. So does each until somebody has looked. */
  isPatient = true
  /** A claim for it is under way. */
  isAsking = false
  /** Something was known to be due for it, so nobody has looked. */
  isTrying = false
  /** Once that turned out to be gone, or it was answered. */
  readonly tried: Promise<void>
  readonly #count: number
  readonly #taken: ClaimedJob[] = []
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

  /** How many more jobs it may be given; 0 once it was answered. */
  get left(): number {
    return this.#isOpen ? this.#count - this.#taken.length : 0
  }

  get hasTaken(): boolean {
    return this.#taken.length > 0
  }

  endTrial(): void {
    this.isTrying = false
    this.#endTrial()
  }

  give(job: ClaimedJob): void {
    this.#taken.push(job)
  }

  /** Answers with what it has been given. */
  end(): void {
    this.#isOpen = false
    this.#resolve(this.#taken)
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
