import type { Queue } from '../queue.ts'
import type { Round } from '../store/claim.ts'
import { MOST_BYTES } from '../store/exchange.ts'
import { charactersPerJob } from '../worker/schedule/prefetch.ts'
import { ServedQueue } from '../worker/schedule/served-queue.ts'
import { Shard } from '../worker/schedule/shard.ts'
import { Shares } from './shares.ts'

/** Most jobs to claim in one call: with so many, the fixed cost of a call is small for each. */
const MOST_CLAIMED = 400

/** A queue from which claims take jobs, from all of its shards: a consumer owns none. */
export class ConsumedQueue extends ServedQueue {
  readonly shards: Shard[] = []
  readonly shares = new Shares()
  #waiting = 0
  #mostClaimed = MOST_CLAIMED
  /** ms of the monotonic clock. */
  #lastWaited = performance.now()

  constructor(queue: Queue, queueId: number, shards: number) {
    super(queue, queueId)
    this.grow(shards)
  }

  /** Returns the shards that are new. */
  grow(shards: number): Shard[] {
    const added: Shard[] = []
    while (this.shards.length < shards) {
      const shard = new Shard(this, this.shards.length)
      this.shards.push(shard)
      added.push(shard)
    }
    return added
  }

  /** Returns the shards that the queue no longer has. */
  shrink(shards: number): Shard[] {
    return this.shards.splice(shards)
  }

  /** It was deleted and made again: with other shards, also where their numbers are the same. */
  renew(queueId: number, shards: number): void {
    this.shrink(0)
    this.queueId = queueId
    this.grow(shards)
  }

  /** Most jobs to claim in one call: so many that the answer is likely to hold them. */
  get mostClaimed(): number {
    return this.#mostClaimed
  }

  /** A claim has brought these jobs; others that come will have about their size. */
  brought(rounds: readonly Round[]): void {
    if (rounds.length === 0) return
    const likely = Math.floor(MOST_BYTES / charactersPerJob(rounds))
    this.#mostClaimed = Math.min(Math.max(1, likely), MOST_CLAIMED)
  }

  /** How many requests wait for its jobs. */
  get waiting(): number {
    return this.#waiting
  }

  begins(): void {
    this.#waiting += 1
  }

  ends(): void {
    this.#waiting -= 1
    this.#lastWaited = performance.now()
  }

  /** Whether nobody has waited for its jobs for so many ms. */
  isForgotten(linger: number): boolean {
    return this.#waiting === 0 && !this.isAsked && performance.now() - this.#lastWaited >= linger
  }

  /** Whether a claim of it is under way. */
  get isAsked(): boolean {
    return this.shards.some(({ lanes }) => [...lanes.values()].some(({ claim }) => claim !== undefined))
  }

  /** Nobody looks for jobs that nobody waits for. */
  override get isWanted(): boolean {
    return this.waiting > 0
  }

  override get room(): number {
    return this.isWanted ? Number.POSITIVE_INFINITY : 0
  }
}
