import { EventEmitter } from 'node:events'
import type { Instrumentation, ObservedBatch } from '../instrumentation.ts'
import type { ProcessRequest } from '../store/process.ts'

/** The fields of every event of a batch. Durations are in ms. */
export interface BatchEvent {
  readonly queue: string
  readonly shard: number
  readonly slot: number
  readonly ids: readonly string[]
}

/** The events that a worker emits. */
export interface WorkerEvents {
  /** A handler begins. */
  started: [BatchEvent]
  /** A handler returned and its completion is stored. */
  completed: [BatchEvent & { readonly duration: number }]
  /** A round failed, and the failure is stored. `retryIn`: seconds until the next try, or null if payloads died. */
  failed: [{ queue: string; id: string; error: unknown; retryCount: number; retryIn: number | null }]
  /**
   * A payload went to the morgue. `payload` is what the handler was given, as it left it; undefined if the handler took it out
   * of its list, or if it was too large to come with its claim and the round never began. `findDead` has the stored one.
   */
  died: [{ queue: string; id: string; payload: unknown; error: unknown }]
  /** A handler threw `Snooze`, and its round waits for so many `seconds`. `error`: what was thrown. */
  snoozed: [{ queue: string; id: string; error: unknown; seconds: number }]
  /** A handler threw `Discard` without the morgue: the payloads of its round are gone. `error`: what was thrown. */
  dropped: [{ queue: string; id: string; error: unknown }]
  /**
   * So many payloads of a queue had expired and are gone, unseen by handlers since then: with the round that left them out; or, of
   * jobs that waited, by themselves, which one of all workers tells.
   */
  expired: [{ queue: string; payloads: number }]
  /** A job was taken over from a process that died. */
  rescued: [{ queue: string; id: string; crashes: number }]
  /**
   * An outcome was refused, because the claim belongs to another process by now. Or the lease was lost before it was known
   * whether the outcome had been stored.
   */
  refused: [{ queue: string; id: string }]
  /**
   * Claims of this worker have met a limit of a queue (`tenant` null) or a tenant, and jobs wait. `until`: when one may go;
   * null if that depends on when rounds end. Or, with `lane`, a rule of the queue has begun to send what the tenant pushes to
   * that lane: the worker that holds the queue's first shard tells it, within some ten seconds.
   */
  throttled: [{ queue: string; tenant: string | null; until: Date | null; lane?: number }]
  /** Claims of this worker have not met that limit for a while; or, with the `lane`, that rule sends nothing there any more. */
  unthrottled: [{ queue: string; tenant: string | null; lane?: number }]
  /** The lease could not be renewed. Signals are aborted, and the process registers again. */
  leaseLost: [{ processId: number }]
  /**
   * A later release has migrated the database, and its definitions no longer serve this one. The worker stops as by
   * `stop()`; call that to await the result. Start the new release in its place.
   */
  outdated: [{ version: string; serial: number }]
  /**
   * Someone asked it to be quiet or to stop, by `lockstep.quiet` or `lockstep.stop`. It does so, as by its own `quiet()` or
   * `stop()`; call that to await the result. An application that has nothing else to do then ends its process.
   */
  requested: [{ request: ProcessRequest }]
  /** Shards were taken, released or lost. `shards`: how many are held now. */
  rebalanced: [{ shards: number }]
  /** Something went wrong in the background; the worker carries on. */
  failure: [unknown]
}

export class WorkerEmitter extends EventEmitter<WorkerEvents> {
  /** An error that a listener throws becomes an uncaught exception, but does not interrupt our work. */
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

/** The instrumentation that emits the events. Nothing is gathered for an event of every batch that no one listens to. */
export function eventsOf(worker: WorkerEmitter): Instrumentation {
  return {
    get perform() {
      if (worker.listenerCount('started') === 0) return undefined
      return (batch: ObservedBatch) => void worker.emit('started', batchEvent(batch))
    },
    get complete() {
      if (worker.listenerCount('completed') === 0) return undefined
      return (batch: ObservedBatch & { readonly duration: number }) =>
        void worker.emit('completed', { duration: batch.duration, ...batchEvent(batch) })
    },
    fail({ queue, round: { id, retryCount }, error, retryIn }) {
      worker.emit('failed', { queue, id, error, retryCount: retryCount + 1, retryIn })
    },
    die({ queue, round: { id }, payload, error }) {
      worker.emit('died', { queue, id, payload, error })
    },
    snooze({ queue, round: { id }, error, seconds }) {
      worker.emit('snoozed', { queue, id, error, seconds })
    },
    drop({ queue, round: { id }, error }) {
      worker.emit('dropped', { queue, id, error })
    },
    expire(moment) {
      worker.emit('expired', moment)
    },
    rescue({ queue, round: { id, crashes } }) {
      worker.emit('rescued', { queue, id, crashes })
    },
    refuse({ queue, round: { id } }) {
      worker.emit('refused', { queue, id })
    },
    throttle(moment) {
      worker.emit('throttled', moment)
    },
    unthrottle(moment) {
      worker.emit('unthrottled', moment)
    },
  }
}

function batchEvent({ queue, shard, slot, rounds }: ObservedBatch): BatchEvent {
  return { queue, shard, slot, ids: rounds.map(({ id }) => id) }
}
