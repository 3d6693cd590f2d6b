import { Problem } from '../../../serving/problem.ts'
import type { TokenRate } from '../../../token.ts'

/** A server takes a fiftieth of a token's requests at once, and so asks the database no more than fifty times in a window. */
const SHARE = 50
const MOST_HELD = 10_000

/** What a server has got of a token's requests. */
export interface Granted {
  readonly granted: number
  /** Seconds until the window ends. */
  readonly endsIn: number
}

/** Requests that a token may still make here, until its window ends. */
interface Held {
  left: number
  /** ms of the monotonic clock. */
  readonly until: number
  /** No more are to be had until then. */
  readonly isAll: boolean
}

/** Counts the requests of tokens, over all servers. */
export class Quotas {
  readonly #take: (digest: Buffer, rate: TokenRate, wanted: number) => Promise<Granted>
  readonly #held = new Map<string, Held>()
  readonly #asking = new Map<string, Promise<void>>()

  /** `take`: takes up to so many of a token's requests. */
  constructor(take: (digest: Buffer, rate: TokenRate, wanted: number) => Promise<Granted>) {
    this.#take = take
  }

  /** @throws Problem 429 if the token has made as many requests as it may */
  async count(digest: Buffer, rate: TokenRate): Promise<void> {
    const key = digest.toString('hex')
    for (;;) {
      const held = this.#held.get(key)
      const now = performance.now()
      if (held && now < held.until && held.left > 0) {
        held.left -= 1
        return
      }
      if (held?.isAll && now < held.until) throw limited(rate, held.until - now)
      await this.#ask(key, digest, rate)
    }
  }

  /** Requests that come meanwhile wait for the same answer. */
  #ask(key: string, digest: Buffer, rate: TokenRate): Promise<void> {
    let asking = this.#asking.get(key)
    if (!asking) {
      asking = this.#askNow(key, digest, rate).finally(() => this.#asking.delete(key))
      this.#asking.set(key, asking)
    }
    return asking
  }

  async #askNow(key: string, digest: Buffer, rate: TokenRate): Promise<void> {
    // From before the call, so that what is left is not used in the next window.
    const now = performance.now()
    const { granted, endsIn } = await this.#take(digest, rate, Math.ceil(rate.requests / SHARE))
    this.#held.delete(key)
    this.#held.set(key, { left: granted, until: now + endsIn * 1_000, isAll: granted === 0 })
    if (this.#held.size > MOST_HELD) this.#held.delete(this.#held.keys().next().value!)
  }
}

function limited({ requests, per }: TokenRate, ms: number): Problem {
  return new Problem(
    429,
    'LOCKSTEP_RATE_LIMITED',
    `the token may make ${requests} requests in ${per} seconds, over all servers`,
    { 'retry-after': String(Math.max(1, Math.ceil(ms / 1_000))) },
  )
}
