import type { Queue } from '../../queue.ts'
import type { Lane } from './lane.ts'
import { Prefetch } from './prefetch.ts'

/** A queue as this worker serves it: its definition, the number of its row, and what is known of its handler. */
export class ServedQueue {
  readonly queue: Queue
  readonly queueId: number
  /** Its place in the order of definition. */
  readonly place: number
  readonly prefetch: Prefetch
  /** Those seen in any shard, 0 before it was: a lane that is new to one shard may come in each. */
  readonly lanes = new Set([0])
  /** Lanes of which something is in hand. */
  readonly prefetched = new Set<Lane>()
  /** Slots that are at work on it. */
  slots = 0

  constructor(queue: Queue, queueId: number, place = 0) {
    this.queue = queue
    this.queueId = queueId
    this.place = place
    this.prefetch = new Prefetch(queue.batchSize)
  }

  /** Slots that may come to work on it; Infinity where the queue sets no bound. */
  get room(): number {
    return (this.queue.concurrency ?? Number.POSITIVE_INFINITY) - this.slots
  }
}
