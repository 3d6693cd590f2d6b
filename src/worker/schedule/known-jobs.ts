import type { Cursor } from '../../store/claim.ts'
import type { WaitingJob } from '../../store/limits.ts'
import { before, behind, first, inOrder, isBefore } from './places.ts'

/**
 * The jobs of one tenant that a lane has passed over, in the order in which they are due. A claim finds them by their keys: to read
 * the lane anew from the first of them on, it would pass all that others have completed there since some old snapshot.
 *
 * Only the first are kept. Behind `rest`, the tenant may have others that were passed; undefined: none that is known of.
 */
export class KnownJobs {
  #jobs: WaitingJob[] = []
  #rest: Cursor | undefined

  get jobs(): readonly WaitingJob[] {
    return this.#jobs
  }

  get rest(): Cursor | undefined {
    return this.#rest
  }

  get isEmpty(): boolean {
    return this.#jobs.length === 0 && this.#rest === undefined
  }

  /** The place before the first of all. */
  get start(): Cursor | undefined {
    const [job] = this.#jobs
    return job ? before(job.performIn) : this.#rest
  }

  /** A claim has passed over these, and keeps no more than `most` in mind. */
  learn(jobs: readonly WaitingJob[], most: number): void {
    const rest = this.#rest
    // What lies behind that comes after what is not known yet.
    const next = rest ? jobs.filter((job) => !isBefore(rest, behind(job))) : jobs
    const last = this.#jobs.at(-1)
    const mayRepeat = last !== undefined && next.some((job) => inOrder(job, last) <= 0)
    this.#jobs = mayRepeat ? united(this.#jobs, next) : [...this.#jobs, ...next]
    if (this.#jobs.length <= most) return
    const dropped = before(this.#jobs[most]!.performIn)
    this.#jobs.length = most
    const kept = this.#jobs.at(-1)
    const from = kept && isBefore(dropped, behind(kept)) ? behind(kept) : dropped
    this.#rest = rest ? first(rest, from) : from
  }

  /** What waits behind that was not told. */
  miss(from: Cursor): void {
    this.#rest = this.#rest ? first(this.#rest, from) : from
  }

  /** All that lies between `from` and `to` is known by now, and so is all behind that, if it `isAll`. */
  read(from: Cursor, to: Cursor, isAll: boolean): void {
    if (!this.#rest || isBefore(this.#rest, from)) return
    if (isAll) this.#rest = undefined
    else if (isBefore(this.#rest, to)) this.#rest = to
  }

  /** These don't wait any more. Returns whether any of them was known. */
  drop(ids: ReadonlySet<string>): boolean {
    const left = this.#jobs.filter(({ id }) => !ids.has(id))
    const dropped = left.length < this.#jobs.length
    this.#jobs = left
    return dropped
  }
}

function united(known: readonly WaitingJob[], others: readonly WaitingJob[]): WaitingJob[] {
  const byId = new Map([...known, ...others].map((job) => [job.id, job]))
  return [...byId.values()].sort(inOrder)
}
