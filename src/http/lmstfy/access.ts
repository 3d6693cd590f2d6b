import { Gathered } from '../../gathered.ts'
import type { Database } from '../../postgres/database.ts'
import {
  type KnownToken,
  lookUpTokens,
  refundQuota,
  type Side,
  type TokenKey,
  takeRequest,
} from '../../store/lmstfy-access.ts'

/** ms for which what is known of a token counts: a deleted one is refused after that. */
const VALID_FOR = 500
const MOST_KNOWN = 10_000
const MOST_LOOKED_UP = 1_000

interface Known extends KnownToken {
  /** ms of the monotonic clock. */
  readonly until: number
}

/** A request that counts against the limit of its token. */
export interface Pass {
  /** Gives it back: it has done nothing. */
  refund(): Promise<void>
}

const FREE: Pass = { refund: async () => {} }

/** Which tokens there are, and how many requests they may make, over all gateways. */
export class TokenAccess {
  readonly #database: Database
  readonly #known = new Map<string, Known>()
  readonly #looking: Gathered<TokenKey, KnownToken>

  constructor(database: Database) {
    this.#database = database
    this.#looking = new Gathered((keys) => lookUpTokens(database, keys), MOST_LOOKED_UP)
  }

  async exists(key: TokenKey): Promise<boolean> {
    return (await this.#of(key)).exists
  }

  /** Undefined: it has made as many requests of this side as it may. */
  async take(key: TokenKey, side: Side): Promise<Pass | undefined> {
    const { limit } = await this.#of(key)
    const most = (side === 'read' ? limit?.reads : limit?.writes) ?? 0
    if (!limit || most <= 0) return FREE
    const { granted, window } = await takeRequest(this.#database, key, side, { most, per: limit.per })
    if (granted === 0) return undefined
    return { refund: () => refundQuota(this.#database, key, side, window) }
  }

  /** Something about tokens was changed here. */
  forget(): void {
    this.#known.clear()
  }

  async #of(key: TokenKey): Promise<KnownToken> {
    const name = `${key.pool} ${key.namespace} ${key.token}`
    const known = this.#known.get(name)
    if (known && known.until > performance.now()) return known
    const until = performance.now() + VALID_FOR
    const found = await this.#looking.add(key)
    this.#known.delete(name)
    // One that doesn't exist may be created at any moment, and anybody can think of any number of them.
    if (found.exists) this.#known.set(name, { ...found, until })
    if (this.#known.size > MOST_KNOWN) this.#known.delete(this.#known.keys().next().value!)
    return found
  }
}
