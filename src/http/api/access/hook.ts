import { boundText, OptionError } from '../../../errors.ts'
import type { Logger } from '../../../logger.ts'
import type { Asked } from '../../../serving/asked.ts'
import type { Arrival } from '../../../serving/place.ts'
import type { ApiOptions } from '../options.ts'
import { type Access, type Admission, type ApiRequest, forbidden, forGood, type Grant } from './access.ts'

/** Characters that the audit takes of an actor. */
const MAX_ACTOR = 200

/** Asks the application. */
export class Hook implements Access {
  readonly #authorize: NonNullable<ApiOptions['authorize']>
  readonly #logger: Logger

  constructor(authorize: NonNullable<ApiOptions['authorize']>, logger: Logger) {
    this.#authorize = authorize
    this.#logger = logger
  }

  async admit(asked: Asked, { incoming }: Arrival, wanted: ApiRequest): Promise<Grant> {
    const { url, method, headers, signal } = asked
    const ask = async (queue: string | undefined) => {
      try {
        const bare = new Request(url, { method, headers, signal })
        return actorIn(await this.#authorize(bare, { ...wanted, queue }, incoming))
      } catch (error) {
        this.#logger.error({ error }, 'authorize failed, so access is refused')
        return null
      }
    }
    const actor = await ask(wanted.queue)
    if (actor === null) throw forbidden(wanted.scope, wanted.queue)
    return {
      actor,
      holder: `actor ${actor ?? ''}`,
      queues: null,
      may: async (queue) => queue === wanted.queue || (await ask(queue)) !== null,
      requireStill: forGood,
    }
  }
}

/** Null means no: anything that is not clearly a yes, such as an object of another shape. */
function actorIn(admission: Admission): string | undefined | null {
  if (admission === true) return undefined
  const actor = typeof admission === 'object' ? admission?.actor : undefined
  if (typeof actor !== 'string') return null
  if (actor.trim() === '')
    throw new OptionError('authorize named an actor without characters: name who acts, or return true')
  return boundText(actor, MAX_ACTOR)
}
