import { OptionError } from './errors.ts'
import { rejectUnknownOptions, show } from './options.ts'

/** A round as instruments see it. Its fence names it from its claim to its end, and no other round. */
export interface ObservedRound {
  readonly id: string
  readonly fence: number
  /** −1: never failed, 0: failed once. */
  readonly retryCount: number
  /** How often in a row a process died with the job in work. */
  readonly crashes: number
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

interface OfOne {
  readonly queue: string
  readonly round: ObservedRound
}

/** Operations that take time: what is told when one begins, and what more at its end, where it succeeded. */
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
  /** A handler runs, with its middleware. `failed`: by id, what those failed of that did. */
  perform: [begun: ObservedBatch, ended: { readonly failed: ReadonlyMap<string, unknown> }]
  /** A worker compares live processes and shards, lets go of what is too much, and takes what is free. `shards`: held then. */
  rebalance: [
    begun: { readonly processId: number },
    ended: { readonly shards: number; readonly changed: boolean },
  ]
  /** A worker does a kind of maintenance. `done`: as in the log; undefined where others were at it, or nothing was to do. */
  maintain: [begun: { readonly name: string }, ended: { readonly done: object | undefined }]
}

/** What has happened. Outcomes of rounds are told once they are stored. */
export interface Moments {
  /** A worker's lease was renewed. `duration`: ms that it took. */
  renew: { readonly processId: number; readonly duration: number }
  /** Rounds of a batch succeeded. `duration`: ms since their handler began. */
  complete: ObservedBatch & { readonly duration: number }
  /** A round failed. `retryIn`: s until the next try; null where a payload of it died. */
  fail: OfOne & { readonly error: unknown; readonly retryIn: number | null }
  /** A payload went to the morgue. Undefined where it was too large to come with its claim, and the round never began. */
  die: OfOne & { readonly payload: unknown; readonly error: unknown }
  /** A round was taken over from a process that died. */
  rescue: OfOne
  /**
   * An outcome was refused: the claim belongs to somebody else by now. Or the lease was lost before it was known
   * whether the outcome had been stored.
   */
  refuse: OfOne
}

/** The end of an operation that took `duration` ms. One that failed has an `error`, and nothing of what a success tells. */
export type SpanEnd<Result> = { readonly duration: number } & (
  | (Result & { readonly error?: undefined })
  | ({ readonly error: unknown } & { readonly [Key in keyof Result]?: undefined })
)

/**
 * Hears of operations, for metrics and traces. What it returns when one begins is called at its end: so whatever belongs to both
 * is at hand. What it has no function for costs nothing.
 *
 * It is called in the midst of the work, so it has to be quick. What it throws is logged, and changes nothing.
 */
export type Instrumentation = {
  readonly [Kind in keyof Spans]?: (
    begun: Spans[Kind][0],
    // biome-ignore lint/suspicious/noConfusingVoidType: whoever wants no end returns nothing
  ) => ((end: SpanEnd<Spans[Kind][1]>) => void) | undefined | void
} & { readonly [Kind in keyof Moments]?: (moment: Moments[Kind]) => void }

const KINDS: readonly (keyof Spans | keyof Moments)[] = [
  'enqueue',
  'claim',
  'perform',
  'rebalance',
  'maintain',
  'renew',
  'complete',
  'fail',
  'die',
  'rescue',
  'refuse',
]

/** @throws OptionError: what is misspelt would hear of nothing */
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
