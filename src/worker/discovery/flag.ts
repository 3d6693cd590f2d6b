import { isDeepStrictEqual } from 'node:util'
import type { ServedQueues } from '../assignment/served-queues.ts'
import type { ShardLocks } from '../assignment/shard-locks.ts'

/** From this many wake-ups in CROWD_PERIOD ms on, polling costs everyone less than wake-ups do. */
const CROWD = 25
const CROWD_PERIOD = 100

/** While it is raised, producers of the served queues send wake-ups. */
export class Flag {
  readonly #locks: ShardLocks
  readonly #queues: Pick<ServedQueues, 'ids'>
  #isRaised = false
  /** The queues it was raised for. */
  #raisedFor: readonly number[] = []
  #notBefore = 0
  #wakeUps = 0
  #countingSince = 0

  constructor(locks: ShardLocks, queues: Pick<ServedQueues, 'ids'>) {
    this.#locks = locks
    this.#queues = queues
  }

  get isRaised(): boolean {
    return this.#isRaised
  }

  /** Whether the time for which it was lowered is over. */
  get mayRise(): boolean {
    return performance.now() > this.#notBefore
  }

  /** Whether wake-ups come so fast that polling costs less. */
  get isCrowded(): boolean {
    return this.#isRaised && this.#wakeUps >= CROWD
  }

  /** Whether a queue was created again: its producers check a flag under another number. */
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

  /** Its connection broke, and the flag is gone with it. */
  lost(): void {
    this.#isRaised = false
  }

  async raise(): Promise<void> {
    this.#isRaised = true
    this.#wakeUps = 0
    this.#raisedFor = this.#queues.ids
    await this.#set(this.#locks.raiseFlag(this.#raisedFor))
  }

  /** Lowers it for `spell` ms, unless it becomes quiet before that. */
  async lower(spell: number): Promise<void> {
    this.#notBefore = performance.now() + spell
    this.#isRaised = false
    await this.#set(this.#locks.lowerFlag(this.#raisedFor))
  }

  async #set(call: Promise<void>): Promise<void> {
    try {
      await call
    } catch (error) {
      // If the connection is gone, so is the flag.
      this.#isRaised = false
      throw error
    }
  }
}
