import type { ClaimedJob, FoundJob } from '../../index.ts'
import type { NewJob } from '../../job.ts'
import type { DeadSize } from '../../store/sizes.ts'
import type { Call } from '../call.ts'

/** What a consume asks for. Times in ms. */
export interface Wanted {
  /** Full names, the one to look at first in front. */
  readonly queues: readonly string[]
  readonly count: number
  readonly lease: number
  readonly wait: number
  readonly signal: AbortSignal
}

/** What was ended: a claim of a job, with the job, or a job that nobody had in work, or that others have. */
export type Ended = 'claim' | 'job'

/** Where jobs are. Queues are told by their full names. */
export interface Jobs {
  /** All or none. */
  publish(queue: string, jobs: readonly NewJob<string>[]): Promise<void>
  /** Jobs of the first queue that has some, and then of the next ones, up to the count. Waits only for the first job. */
  consume(wanted: Wanted): Promise<ClaimedJob<string>[]>
  /** Notes to whom a job is handed. */
  handed(job: ClaimedJob, call: Call): void
  /** Nobody gets these jobs: they wait as before. */
  release(jobs: readonly ClaimedJob[]): Promise<void>
  /**
   * Ends a job, whatever its state, for a client that tells it by its id alone. One that somebody else may have in work by now is
   * left to them, and isn't handed over again. Resolves to undefined if there is no such job.
   */
  end(queue: string, id: string, call: Call): Promise<Ended | undefined>
  /**
   * Resolves when `end` need not wait for a transaction that has pushed the id, to whether there is such a job. Rejects as that does, or with
   * the reason of `signal`.
   */
  waitForPushes(queue: string, id: string, signal: AbortSignal): Promise<boolean>
  find(queue: string, id: string): Promise<FoundJob<string>[]>
  /** The job that would be handed over next. */
  head(queue: string): Promise<FoundJob<string> | undefined>
  /** Shared by all who ask, as the size of the morgue is: kept for as long as `Shared` says. */
  countReady(queue: string): Promise<number>
  sizeOfMorgue(queue: string): Promise<Omit<DeadSize, 'ms'>>
  /**
   * Lets the oldest dead jobs wait again, each with one try, and returns how many. `ttl`: seconds; 0: for ever. `until`: how long what is held is
   * waited for, in ms of the monotonic clock; default: five seconds.
   */
  respawn(queue: string, most: number, ttl: number, until?: number): Promise<number>
  /** The oldest first. Resolves to how many. */
  deleteDead(queue: string, most: number): Promise<number>
  /** Deletes all jobs that wait, also those that aren't due yet. */
  destroy(queue: string): Promise<void>
}
