import { messageOf, OptionError } from './errors.ts'
import { show } from './options.ts'

/** Marks what tells how a round shall end, also for another copy of this package in the same process. */
const ENDING = Symbol.for('pg-lockstep.ending')

/** How a handler wants its round to end. */
export type Wanted =
  | { readonly end: 'discard'; readonly morgue: boolean }
  | { readonly end: 'snooze' | 'retry'; readonly seconds: number }

export interface DiscardOptions extends ErrorOptions {
  /** Whether the payloads go to the morgue. If not, they are dropped, and the worker emits `dropped`. Default true. */
  readonly morgue?: boolean
}

abstract class Ending extends Error {
  readonly #wanted: Wanted

  constructor(message: string, wanted: Wanted, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.#wanted = wanted
  }

  /** @internal */
  get [ENDING](): Wanted {
    return this.#wanted
  }
}

/**
 * Throw it, or pass it to `context.fail`, if no retry can help: all payloads of the round go to the morgue at once. What
 * was pushed meanwhile waits for its own round. Without a `reason`, the message of the `cause` is the reason.
 */
export class Discard extends Ending {
  constructor(reason: string, { morgue = true, ...options }: DiscardOptions = {}) {
    super(reason || reasonIn(options), { end: 'discard', morgue }, options)
  }
}

/**
 * Throw it, or pass it to `context.fail`, if it's too early: the round comes again after so many seconds, with what was pushed
 * meanwhile. That is no failure: it uses up no retry, and the worker emits `snoozed`.
 */
export class Snooze extends Ending {
  /** @throws OptionError unless `seconds` is a finite number from 0 on */
  constructor(seconds: number, options?: ErrorOptions) {
    super(`later, in ${seconds} s`, { end: 'snooze', seconds: checked(seconds, 'Snooze') }, options)
  }
}

/** Throw it, or pass it to `context.fail`, to choose the time of the next try. It's a failure, with the `cause` as its error. */
export class RetryIn extends Ending {
  /** @throws OptionError unless `seconds` is a finite number from 0 on */
  constructor(seconds: number, options?: ErrorOptions) {
    const { cause } = options ?? {}
    const why = cause === undefined ? '' : `: ${messageOf(cause)}`
    super(`again in ${seconds} s${why}`, { end: 'retry', seconds: checked(seconds, 'RetryIn') }, options)
  }
}

/** What was thrown may be anything. */
export function wantedOf(thrown: unknown): Wanted | undefined {
  try {
    return (thrown as { readonly [ENDING]?: Wanted } | null | undefined)?.[ENDING]
  } catch {
    return undefined
  }
}

/** JavaScript does not check that there is a reason, and an empty one would tell nobody anything. */
function reasonIn({ cause }: ErrorOptions): string {
  return cause === undefined ? 'no reason was given' : messageOf(cause)
}

function checked(seconds: unknown, what: string): number {
  if (typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0) return seconds
  throw new OptionError(`${what}: seconds must be a finite number from 0 on, not ${show(seconds)}`)
}
