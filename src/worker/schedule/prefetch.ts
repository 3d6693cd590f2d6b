import type { Round } from '../../store/claim.ts'
import { MOST_BYTES } from '../../store/exchange.ts'

/** ms that a job may be prefetched before its turn: handlers may become slow. */
export const LONGEST_PREFETCHED = 50
/** If everything that a claim brought ends within this many ms of it, more may be prefetched: at least twice as much. */
const QUICK = 5
/** At most this many times as much: jobs that took no time say little about the next ones. */
const STEEPEST = 8
/** If it takes more than this many ms, half as much is prefetched; if jobs had to be released, one batch. */
const SLOW = 20
const MOST_JOBS = 1_000
/**
 * Most jobs of one lane, however few lanes have something due, unless slots sleep: as many as one call claims. While one
 * claim gathered all jobs, other slots would have nothing.
 */
const MOST_JOBS_OF_LANE = 400
/** Most characters of payloads: prefetched jobs are kept in memory. */
const MOST_CHARACTERS = 2_000_000

/**
 * How much of a queue is prefetched at once, spread over the lanes that have something due. One batch of each lane if
 * handlers take their time; more if they are so quick that asking for each batch would take longer. Prefetched jobs that
 * have not begun no longer merge with pushes, and wait for those that have begun: hence only as much as is done in a few
 * milliseconds.
 *
 * Each portion grows or shrinks the whole in proportion to its own size. So if everything prefetched was quick, the whole
 * becomes as much as takes 5 ms at that pace. Doubling it each time would take most of a burst.
 */
export class Prefetch {
  readonly #batchSize: number
  readonly #mayGrow: boolean
  #batches = 1
  #charactersPerJob = 1

  /** `mayGrow`: not where limits count what is prefetched, and what is released as begun. */
  constructor(batchSize: number, mayGrow = true) {
    this.#batchSize = batchSize
    this.#mayGrow = mayGrow
  }

  /** Jobs per batch; fewer if payloads are so large that they would not come with one answer. */
  get batch(): number {
    return Math.max(1, Math.min(this.#batchSize, Math.floor(MOST_BYTES / this.#charactersPerJob)))
  }

  /** Whether handlers are so quick that the next jobs are claimed before the last ones have begun. */
  get isLarge(): boolean {
    return this.#batches > 1
  }

  /** Jobs to ask of one lane if `lanes` lanes have something due and `slots` slots could begin at once. */
  jobsFor(lanes: number, slots: number): number {
    const most = Math.min(MOST_JOBS, Math.floor(MOST_CHARACTERS / this.#charactersPerJob))
    const batches = Math.max(Math.ceil(this.#batches / lanes), slots)
    const share = Math.max(MOST_JOBS_OF_LANE, slots * this.#batchSize)
    return Math.max(this.batch, Math.min(batches * this.#batchSize, Math.ceil(most / lanes), share))
  }

  /** How many characters the payloads of `jobs` jobs are likely to have. */
  likelySize(jobs: number): number {
    return jobs * this.#charactersPerJob
  }

  /**
   * A prefetched portion has ended. `asked`: how many jobs were asked for. `took`: ms from the claim to its last end, or
   * Infinity if a part was released.
   */
  satisfied(rounds: readonly Round[], asked: number, took: number): void {
    this.#charactersPerJob = charactersPerJob(rounds)
    const batches = rounds.length / this.#batchSize
    if (took > LONGEST_PREFETCHED) this.#batches -= batches
    else if (took > SLOW) this.#batches -= batches / 2
    else if (this.#mayGrow && took < QUICK && rounds.length >= asked)
      this.#batches += batches * (growthAfter(took) - 1)
    this.#batches = Math.min(Math.max(1, this.#batches), MOST_JOBS)
  }
}

/** How many times as many jobs would take 5 ms: at least twice, at most STEEPEST times. */
function growthAfter(took: number): number {
  return Math.min(Math.max(2, QUICK / took), STEEPEST)
}

/** If no payloads came with the claim, each job counts as large as everything that may come. */
export function charactersPerJob(rounds: readonly Round[]): number {
  const come = rounds.filter(({ toLoad }) => !toLoad)
  const characters = come.reduce((sum, { size }) => sum + size, 0)
  return come.length > 0 ? Math.max(1, characters / come.length) : MOST_BYTES
}
