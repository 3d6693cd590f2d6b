import { isDeepStrictEqual } from 'node:util'
import type { ServedQueues } from '../assignment/served-queues.ts'
import type { ShardLocks } from '../assignment/shard-locks.ts'

/** Wake-ups in CROWD_PERIOD ms from which on polling costs everybody less than being woken. */
const CROWD = 25
const CROWD_PERIOD = 100

/** While it is up, producers of the queues served send wake-ups. */
export class Flag {
  readonly #locks: ShardLocks
  readonly #queues: ServedQueues
  #isRaised = false
  /** The queues it was raised for. */
  #raisedFor: readonly number[] = []
  #notBefore = 0
  #wakeUps = 0
  #countingSince = 0

  constructor(locks: ShardLocks, queues: ServedQueues) {
    this.#locks = locks
    this.#queues = queues
  }

  get isRaised(): boolean {
    return this.#isRaised
  }

  /** The time for which it was lowered is over. */
  get mayRise(): boolean {
    return performance.now() > this.#notBefore
  }

  /** Wake-ups come so fast that looking costs less. */
  get isCrowded(): boolean {
    return this.#isRaised && this.#wakeUps >= CROWD
  }

  /** A queue was made again: its producers look for a flag under another number. */
  get isOfOthers(): boolean {
    return this.#isRaised && !isDeepStrictEqual(this.#raisedFor, this.#queues.ids)
  }

  countWakeUp(): void {
    const now = performance.now()
    if (now - this.#countingSince > CROWD_PERIOD) {
      this.#countingSince = now
      this.#wakeUps = 0
    }
    this.#wakeUps += 1
  }

  /** Its connection broke, and it is gone with that. */
  lost(): void {
    this.#isRaised = false
  }

  async raise(): Promise<void> {
    this.#isRaised = true
    this.#wakeUps = 0
    this.#raisedFor = this.#queues.ids
    await this.#set(this.#locks.raiseFlag(this.#raisedFor))
  }

  /** For so many ms, unless it becomes quiet. */
  async lower(spell: number): Promise<void> {
    this.#notBefore = performance.now() + spell
    this.#isRaised = false
    await this.#set(this.#locks.lowerFlag(this.#raisedFor))
  }

  async #set(call: Promise<void>): Promise<void> {
    try {
      await call
    } catch (error) {
      // With its connection the flag is gone.
      this.#isRaised = false
      throw error
    }
  }
}
