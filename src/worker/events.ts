import { EventEmitter } from 'node:events'
import type { Instrumentation, ObservedBatch } from '../instrumentation.ts'

/** What every event of a batch tells. Durations are in ms. */
export interface BatchEvent {
  readonly queue: string
  readonly shard: number
  readonly slot: number
  readonly ids: readonly string[]
}

/** What a worker tells those who observe it. */
export interface WorkerEvents {
  /** A handler begins. */
  started: [BatchEvent]
  /** A handler returned and its completion is stored. */
  completed: [BatchEvent & { readonly duration: number }]
  /** A round failed and is stored as such; `retryIn` seconds until the next try, null where a payload died. */
  failed: [{ queue: string; id: string; error: unknown; retryCount: number; retryIn: number | null }]
  /** A payload went to the morgue. Undefined where it was too large to come with its claim, and the round never began. */
  died: [{ queue: string; id: string; payload: unknown; error: unknown }]
  /** A job was taken over from a process that died. */
  rescued: [{ queue: string; id: string; crashes: number }]
  /**
   * An outcome was refused: the claim belongs to somebody else by now. Or the lease was lost before it was known
   * whether the outcome had been stored.
   */
  refused: [{ queue: string; id: string }]
  /** The lease could not be renewed: signals are aborted, and the process registers anew. */
  leaseLost: [{ processId: number }]
  /**
   * A later release has migrated the database, and its definitions no longer serve this one. The worker stops as at
   * `stop()`, whose result can be awaited by calling it: start the new release in its place.
   */
  outdated: [{ version: string; serial: number }]
  /** Shards came or went. */
  rebalanced: [{ shards: number }]
  /** Something went wrong in the background; the worker carries on. */
  failure: [unknown]
}

export class WorkerEmitter extends EventEmitter<WorkerEvents> {
  /** What a listener throws is its own affair: an uncaught exception, but not in the midst of our work. */
  override emit: EventEmitter<WorkerEvents>['emit'] = (event, ...details) => {
    try {
      return super.emit(event, ...details)
    } catch (error) {
      process.nextTick(() => {
        throw error
      })
      return true
    }
  }
}

/** The events of operations. Where nobody listens to one of every batch, it is not heard of. */
export function eventsOf(worker: WorkerEmitter): Instrumentation {
  return {
    get perform() {
      if (worker.listenerCount('started') === 0) return undefined
      return (batch: ObservedBatch) => void worker.emit('started', batchEvent(batch))
    },
    get complete() {
      if (worker.listenerCount('completed') === 0) return undefined
      return (batch: ObservedBatch & { readonly duration: number }) =>
        void worker.emit('completed', { ...batchEvent(batch), duration: batch.duration })
    },
    fail({ queue, round: { id, retryCount }, error, retryIn }) {
      worker.emit('failed', { queue, id, error, retryCount: retryCount + 1, retryIn })
    },
    die({ queue, round: { id }, payload, error }) {
      worker.emit('died', { queue, id, payload, error })
    },
    rescue({ queue, round: { id, crashes } }) {
      worker.emit('rescued', { queue, id, crashes })
    },
    refuse({ queue, round: { id } }) {
      worker.emit('refused', { queue, id })
    },
  }
}

function batchEvent({ queue, shard, slot, rounds }: ObservedBatch): BatchEvent {
  return { queue, shard, slot, ids: rounds.map(({ id }) => id) }
}
