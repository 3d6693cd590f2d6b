import { setImmediate as turn } from 'node:timers/promises'
import type { TokenGrant } from '../../../token.ts'

/** ms that an answer counts, from when it was asked for: so a deleted token is refused within a second. */
const FRESH = 900

type Grants = ReadonlyMap<string, TokenGrant>

/** A query that has not been sent. */
interface Gathered {
  readonly digests: Map<string, Buffer>
  readonly answer: Promise<Grants>
}

interface Known {
  /** Undefined: there is no such token. */
  readonly grant: TokenGrant | undefined
  /** ms of the monotonic clock. */
  readonly until: number
  isUsed: boolean
}

/**
 * What tokens allow, as the database said within the last second. One query at a time asks for all that requests wait for, and
 * for what they have used since the last one: so a second costs a query, however many requests and tokens it has.
 */
export class KnownTokens {
  readonly #find: (digests: readonly Buffer[]) => Promise<Grants>
  #known = new Map<string, Known>()
  #next: Gathered | undefined
  #asking: Promise<unknown> = Promise.resolve()

  constructor(find: (digests: readonly Buffer[]) => Promise<Grants>) {
    this.#find = find
  }

  async find(digest: Buffer): Promise<TokenGrant | undefined> {
    const key = digest.toString('hex')
    const known = this.#known.get(key)
    if (known && performance.now() < known.until) {
      known.isUsed = true
      return known.grant
    }
    this.#next ??= this.#gather()
    this.#next.digests.set(key, digest)
    return (await this.#next.answer).get(key)
  }

  #gather(): Gathered {
    const digests = new Map<string, Buffer>()
    const answer = this.#asking.then(() => turn()).then(() => this.#ask(digests))
    this.#asking = answer.catch(() => {})
    return { digests, answer }
  }

  async #ask(digests: Map<string, Buffer>): Promise<Grants> {
    this.#next = undefined
    // Tokens that do not exist are asked for only as long as somebody waits.
    for (const [key, { grant, isUsed }] of this.#known)
      if (grant && isUsed) digests.set(key, Buffer.from(key, 'hex'))
    const until = performance.now() + FRESH
    const grants = await this.#find([...digests.values()])
    const now = performance.now()
    const others = [...this.#known].filter(([key, known]) => now < known.until && !digests.has(key))
    const asked = [...digests.keys()].map((key): [string, Known] => [
      key,
      { grant: grants.get(key), until, isUsed: false },
    ])
    this.#known = new Map([...others, ...asked])
    return grants
  }
}
