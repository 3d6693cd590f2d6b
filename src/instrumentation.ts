import { OptionError } from './errors.ts'
import type { PayloadHeaders } from './job.ts'
import { rejectUnknownOptions, show } from './options.ts'

/** A round as instruments see it. The fence identifies the round from its claim to its end. */
export interface ObservedRound {
  readonly id: string
  readonly fence: number
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** How often in a row a process died with the job in work. */
  readonly crashes: number
  /** How many were merged into it; 0 until they are loaded, if they were too large to come with their claim. */
  readonly payloads: number
}

/** Rounds that are performed together, and where. */
export interface ObservedBatch {
  /** The worker process, as in the table of processes. */
  readonly processId: number
  readonly queue: string
  readonly shard: number
  readonly slot: number
  readonly rounds: readonly ObservedRound[]
}

/** A round whose handler begins. */
export interface PerformedRound extends ObservedRound {
  /** When it was due. */
  readonly performIn: Date
  /** ms from then to now, by the database's clock. */
  readonly waited: number
  /** Of each payload; undefined if none has any. */
  readonly headers: readonly (PayloadHeaders | null)[] | undefined
}

/** Rounds whose handler begins. */
export interface PerformedBatch extends ObservedBatch {
  readonly rounds: readonly PerformedRound[]
}

/** The state of a queue, as far as instruments need it; see `QueueStats`. */
export interface QueueState {
  readonly queue: string
  readonly pausedAt: Date | null
  readonly waiting: number
  readonly due: number
  readonly working: number
  readonly dead: number
  /** ms. */
  readonly lag: number
}

/** What instruments may ask a `Lockstep` for while it is open. */
export interface ObservedLockstep {
  stats(): Promise<{ readonly queues: readonly QueueState[] }>
  /** ms; see `Lockstep`. */
  snapshotAge(): Promise<number>
}

/** A worker; each field tells how it is at the moment when it is read. */
export interface ObservedWorker {
  readonly processId: number
  /** The names of those that it serves. */
  readonly queues: readonly string[]
  readonly slots: number
  /** Batches whose handlers run. */
  readonly running: number
  /** Shards that it holds. */
  readonly shards: number
}

interface OfOne {
  readonly queue: string
  readonly round: ObservedRound
}

/** Operations that take time: what is reported when one begins, and what is added at its end if it succeeded. */
export interface Spans {
  /** A call of `enqueue`. `jobs`: as given, before the middleware. `stored`: in the transaction `tx`, or committed. */
  enqueue: [
    begun: { readonly queue: string; readonly jobs: number; readonly tx: boolean },
    ended: { readonly stored: number },
  ]
  /** A worker asks for up to `asked` jobs of a lane. */
  claim: [
    begun: {
      readonly processId: number
      readonly queue: string
      readonly shard: number
      readonly lane: number
      readonly asked: number
    },
    ended: { readonly rounds: readonly ObservedRound[] },
  ]
  /** A handler runs, with its middleware. `failed`: the error of each failed id. */
  perform: [begun: PerformedBatch, ended: { readonly failed: ReadonlyMap<string, unknown> }]
  /** A worker compares live processes and shards, releases shards beyond its share and takes free ones. `shards`: held after that. */
  rebalance: [
    begun: { readonly processId: number },
    ended: { readonly shards: number; readonly changed: boolean },
  ]
  /** A worker does one kind of maintenance. `done`: as in the log; undefined if another process was doing it, or there was nothing to do. */
  maintain: [begun: { readonly name: string }, ended: { readonly done: object | undefined }]
}

/** Single events. Outcomes of rounds are reported once they are stored. */
export interface Moments {
  /** A `Lockstep` was created with this instrument. */
  open: { readonly lockstep: ObservedLockstep }
  /** It was closed: it answers no more. */
  close: { readonly lockstep: ObservedLockstep }
  /** A worker has started. */
  start: { readonly worker: ObservedWorker }
  /** It has stopped. */
  stop: { readonly worker: ObservedWorker }
  /** A worker's lease was renewed. `duration`: ms that it took. */
  renew: { readonly processId: number; readonly duration: number }
  /** Rounds of a batch succeeded. `duration`: ms since their handler began. */
  complete: ObservedBatch & { readonly duration: number }
  /** A round failed. `retryIn`: s until the next try; null if payloads died. */
  fail: OfOne & { readonly error: unknown; readonly retryIn: number | null }
  /**
   * A payload went to the morgue. As the handler left it; undefined if the handler took it out of its list, or if it was too
   * large to come with its claim and the round never began.
   */
  die: OfOne & { readonly payload: unknown; readonly error: unknown }
  /** A handler asked for its round to come again later (`Snooze`). `seconds`: until then. */
  snooze: OfOne & { readonly error: unknown; readonly seconds: number }
  /** A handler had its payloads dropped (`Discard` without the morgue). */
  drop: OfOne & { readonly error: unknown }
  /**
   * Payloads of a queue had expired and are gone, with the round that left them out, or by themselves. No handler has seen them,
   * at least since they expired.
   */
  expire: { readonly queue: string; readonly payloads: number }
  /** A round was taken over from a process that died. */
  rescue: OfOne
  /**
   * An outcome was refused because the claim belongs to another process by now. Or the lease was lost before the worker
   * learned whether the outcome had been stored.
   */
  refuse: OfOne
  /**
   * Claims have met a limit of a queue (`tenant` null) or a tenant, and jobs wait. `until`: when one may go; null if that
   * depends on when rounds end. Or, with `lane`, a rule of the queue has begun to send what the tenant pushes to that lane.
   */
  throttle: {
    readonly queue: string
    readonly tenant: string | null
    readonly until: Date | null
    readonly lane?: number
  }
  /** Claims meet that limit no more; or, with the `lane`, that rule sends nothing there any more. */
  unthrottle: { readonly queue: string; readonly tenant: string | null; readonly lane?: number }
}

/** The end of an operation that took `duration` ms. A failed one has an `error`, and none of a success's fields. */
export type SpanEnd<Result> = { readonly duration: number } & (
  | (Result & { readonly error?: undefined })
  | ({ readonly error: unknown } & { readonly [Key in keyof Result]?: undefined })
)

/** What an instrument does with an operation that has begun. */
export interface SpanObserver<Result> {
  /**
   * Runs the operation by calling `work`, so that all it does happens in a context of the instrument's, as of a trace. What it
   * returns is ignored. If it doesn't call `work` at once, the operation runs without it.
   */
  within?(work: () => unknown): unknown
  /** Called when the operation ends. */
  end?(end: SpanEnd<Result>): void
}

/**
 * Functions that are called for operations, for metrics and traces. What is returned at the beginning of an operation is
 * called at its end, so its closure can hold whatever belongs to both. Operations without a function cost nothing.
 *
 * They are called in the middle of the work, so they have to be quick. If one throws, the error is logged and nothing changes.
 */
export type Instrumentation = {
  readonly [Kind in keyof Spans]?: (
    begun: Spans[Kind][0],
    // biome-ignore lint/suspicious/noConfusingVoidType: an instrument that needs no end returns nothing
  ) => ((end: SpanEnd<Spans[Kind][1]>) => void) | SpanObserver<Spans[Kind][1]> | undefined | void
} & { readonly [Kind in keyof Moments]?: (moment: Moments[Kind]) => void } & {
  /**
   * Called in each call of `enqueue`, in its context: texts to add to the headers of its payloads, such as a trace context. A
   * payload that has one of these names already, or whose headers would become too large, gets none.
   */
  readonly headers?: () => Readonly<Record<string, string>> | undefined
}

export type Kind = keyof Spans | keyof Moments | 'headers'

/** An object, so that the compiler finds a kind that is missing. */
const KINDS = Object.keys({
  headers: true,
  open: true,
  close: true,
  start: true,
  stop: true,
  enqueue: true,
  claim: true,
  perform: true,
  rebalance: true,
  maintain: true,
  renew: true,
  complete: true,
  fail: true,
  die: true,
  snooze: true,
  drop: true,
  expire: true,
  rescue: true,
  refuse: true,
  throttle: true,
  unthrottle: true,
} satisfies Record<Kind, true>) as Kind[]

/** @throws OptionError for a misspelt function, which would never be called */
export function checkInstrumentation(all: readonly Instrumentation[] = []): readonly Instrumentation[] {
  if (!Array.isArray(all))
    throw new OptionError(`Lockstep: instrumentation must be a list of instruments, not ${show(all)}`)
  for (const [index, one] of all.entries()) {
    const what = `instrumentation[${index}]`
    if (typeof one !== 'object' || one === null)
      throw new OptionError(`Lockstep: ${what} must be an object of functions, not ${show(one)}`)
    rejectUnknownOptions(one, KINDS, what)
    for (const kind of KINDS) {
      const hear: unknown = one[kind]
      if (hear !== undefined && typeof hear !== 'function')
        throw new OptionError(`Lockstep: ${what}.${kind} must be a function, not ${show(hear)}`)
    }
  }
  return all
}
