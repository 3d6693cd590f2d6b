import type { Round } from '../store/claim.ts'
import { MOST_BYTES } from '../store/exchange.ts'

/** ms that a job may be in hand before its turn: handlers may become slow. */
export const LONGEST_IN_HAND = 50
/** ms of performing that a hand may take for the next one to be twice as large. */
const QUICK = 5
/** ms of performing after which the next hand is half as large; where jobs had to be given back, it is one batch. */
const SLOW = 20
const MOST_JOBS = 200
/** Characters of payloads: what is in hand lies in memory. */
const MOST_CHARACTERS = 2_000_000

/**
 * How much of a lane is taken into hand at once. A batch, where handlers take their time; several, where they are so
 * quick that asking for each would take longer. What is in hand and has not begun no longer merges with what is
 * pushed, and waits for what has begun: hence only as much as is done in a few milliseconds.
 */
export class Appetite {
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

  /** Jobs to ask for. */
  get jobs(): number {
    const most = Math.min(MOST_JOBS, Math.floor(MOST_CHARACTERS / this.#charactersPerJob))
    return Math.max(this.batch, Math.min(this.#batches * this.#batchSize, most))
  }

  /** Characters that the payloads of so many jobs are likely to have. */
  likelySize(jobs: number): number {
    return jobs * this.#charactersPerJob
  }

  /** What was in hand, and how many ms it took to perform it. */
  satisfied(rounds: readonly Round[], took: number): void {
    this.#charactersPerJob = charactersPerJob(rounds)
    if (took > LONGEST_IN_HAND) this.#batches = 1
    else if (took > SLOW) this.#batches = Math.max(1, Math.floor(this.#batches / 2))
    else if (took < QUICK && rounds.length >= this.jobs) this.#batches *= 2
    this.#batches = Math.min(this.#batches, MOST_JOBS)
  }
}

/** Where none has come with its claim, each is as large as all that may come. */
function charactersPerJob(rounds: readonly Round[]): number {
  const come = rounds.filter(({ toLoad }) => !toLoad)
  const characters = come.reduce((sum, { size }) => sum + size, 0)
  return come.length > 0 ? Math.max(1, characters / come.length) : MOST_BYTES
}
