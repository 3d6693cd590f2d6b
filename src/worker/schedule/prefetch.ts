import type { Round } from '../../store/claim.ts'
import { MOST_BYTES } from '../../store/exchange.ts'

/** ms that a job may be in hand before its turn: handlers may become slow. */
export const LONGEST_PREFETCHED = 50
/** ms from a claim to the last end of what it brought, below which more may be in hand: twice as much at least. */
const QUICK = 5
/** Times as much at most: what took no time says little of what comes. */
const STEEPEST = 8
/** ms after which it is to be half as much; where jobs had to be released, one batch. */
const SLOW = 20
const MOST_JOBS = 1_000
/** Of one lane, however few have something due, unless slots sleep: while one claim gathers all, they would have nothing. */
const MOST_JOBS_OF_LANE = 200
/** Characters of payloads: what is in hand lies in memory. */
const MOST_CHARACTERS = 2_000_000

/**
 * How much of a queue is in hand at once, spread over the lanes that have something due. A batch of each, where handlers take
 * their time; more, where they are so quick that asking for each would take longer. What is in hand and has not begun no longer
 * merges with what is pushed, and waits for what has begun: hence only as much as is done in a few milliseconds.
 *
 * Each portion grows or shrinks the whole by its own size. So when all that is in hand was quick, it becomes as much as takes
 * 5 ms at that pace. To double each time would take most of a burst.
 */
export class Prefetch {
  readonly #batchSize: number
  #batches = 1
  #charactersPerJob = 1

  constructor(batchSize: number) {
    this.#batchSize = batchSize
  }

  /** Jobs of a batch: fewer where payloads are so large that they would not come with one answer. */
  get batch(): number {
    return Math.max(1, Math.min(this.#batchSize, Math.floor(MOST_BYTES / this.#charactersPerJob)))
  }

  /** Whether handlers are so quick that what comes next is claimed before the last has begun. */
  get isLarge(): boolean {
    return this.#batches > 1
  }

  /** Jobs to ask of one lane, where so many lanes have something due, and so many slots could begin at once. */
  jobsFor(lanes: number, slots: number): number {
    const most = Math.min(MOST_JOBS, Math.floor(MOST_CHARACTERS / this.#charactersPerJob))
    const batches = Math.max(Math.ceil(this.#batches / lanes), slots)
    const share = Math.max(MOST_JOBS_OF_LANE, slots * this.#batchSize)
    return Math.max(this.batch, Math.min(batches * this.#batchSize, Math.ceil(most / lanes), share))
  }

  /** Characters that the payloads of so many jobs are likely to have. */
  likelySize(jobs: number): number {
    return jobs * this.#charactersPerJob
  }

  /** A portion of what was in hand, how many jobs were asked for, and how many ms it took from the claim to its last end, or Infinity. */
  satisfied(rounds: readonly Round[], asked: number, took: number): void {
    this.#charactersPerJob = charactersPerJob(rounds)
    const batches = rounds.length / this.#batchSize
    if (took > LONGEST_PREFETCHED) this.#batches -= batches
    else if (took > SLOW) this.#batches -= batches / 2
    else if (took < QUICK && rounds.length >= asked) this.#batches += batches * (growthAfter(took) - 1)
    this.#batches = Math.min(Math.max(1, this.#batches), MOST_JOBS)
  }
}

/** As many times as much takes 5 ms; twice at least. */
function growthAfter(took: number): number {
  return Math.min(Math.max(2, QUICK / took), STEEPEST)
}

/** Where none has come with its claim, each is as large as all that may come. */
function charactersPerJob(rounds: readonly Round[]): number {
  const come = rounds.filter(({ toLoad }) => !toLoad)
  const characters = come.reduce((sum, { size }) => sum + size, 0)
  return come.length > 0 ? Math.max(1, characters / come.length) : MOST_BYTES
}
