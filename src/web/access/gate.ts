import { boundText, OptionError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Arrival } from '../../serving/place.ts'
import type { Decision, WebOptions } from '../options.ts'
import { MAX_NAME, type WebAction } from './users.ts'

export interface Verdict {
  readonly allowed: boolean
  /** Who it is, if that is known. */
  readonly actor?: string | undefined
}

/** Decides who may do what. */
export interface Gate {
  /** Whether a request that no browser sent may change something without the token: its credentials are its own. */
  readonly scripts: boolean
  /** @throws Problem if the visitor can do something about it */
  ask(request: Request, action: WebAction, arrival: Arrival): Promise<Verdict>
}

export const OPEN: Gate = { scripts: false, ask: async () => ({ allowed: true }) }

/** Asks the application. */
export class Hook implements Gate {
  readonly scripts = true
  readonly #authorize: NonNullable<WebOptions['authorize']>
  readonly #logger: Logger

  constructor(authorize: NonNullable<WebOptions['authorize']>, logger: Logger) {
    this.#authorize = authorize
    this.#logger = logger
  }

  async ask(request: Request, action: WebAction, { incoming }: Arrival): Promise<Verdict> {
    try {
      const { url, method, headers, signal } = request
      return verdictOf(await this.#authorize(new Request(url, { method, headers, signal }), action, incoming))
    } catch (error) {
      this.#logger.error({ error }, 'authorize failed, so access is refused')
      return { allowed: false }
    }
  }
}

/**
 * Anything that is not clearly a yes is a no, such as an object of another shape. An actor is made fit for the audit: whoever
 * may look must not fail at acting because of a long name.
 */
function verdictOf(decision: Decision): Verdict {
  if (decision === true) return { allowed: true }
  const actor = typeof decision === 'object' ? decision?.actor : undefined
  if (typeof actor !== 'string') return { allowed: false }
  if (actor.trim() === '')
    throw new OptionError('authorize named an actor without characters: name who acts, or return true')
  return { allowed: true, actor: boundText(actor, MAX_NAME) }
}
