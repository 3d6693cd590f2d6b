import { settlesWithin } from '../promises.ts'
import type { Answer, Reply } from './call.ts'

/** ms for which an answer of the databases counts. */
const VALID_FOR = 1_000
/** ms that a database may take longer than the first that answers: orchestrators wait a second. */
const PATIENCE = 500

/**
 * What orchestrators ask of a gateway: whether it lives, and whether it should be sent requests. It should as long as any of its
 * databases answers: other gateways have the same ones, and requests to those that are there must come somewhere.
 */
export class Probes {
  readonly #pools: ReadonlyMap<string, () => Promise<unknown>>
  #asking: { readonly until: number; readonly down: Promise<readonly string[]> } | undefined
  #stopping = false

  /** By the name of each pool, what rejects if its database doesn't answer. */
  constructor(pools: ReadonlyMap<string, () => Promise<unknown>>) {
    this.#pools = pools
  }

  stopping(): void {
    this.#stopping = true
  }

  readonly live: Answer = async () => text(200, 'ok')

  readonly ready: Answer = async () => {
    if (this.#stopping) return text(503, 'it is stopping')
    const down = await this.#down()
    if (down.length === 0) return text(200, 'ok')
    if (down.length === this.#pools.size) return text(503, 'no database answers')
    return text(200, `ok, but pools do not answer: ${down.join(', ')}`)
  }

  /** The pools that don't answer. However many ask, the databases are asked once a second. */
  #down(): Promise<readonly string[]> {
    if (!this.#asking || this.#asking.until <= performance.now())
      this.#asking = { until: performance.now() + VALID_FOR, down: this.#ask() }
    return this.#asking.down
  }

  async #ask(): Promise<readonly string[]> {
    const down = new Set(this.#pools.keys())
    const asked = [...this.#pools].map(async ([name, ask]) => {
      await ask()
      down.delete(name)
    })
    const first = await Promise.any(asked).then(
      () => true,
      () => false,
    )
    if (first) await settlesWithin(Promise.allSettled(asked), PATIENCE)
    return [...down]
  }
}

function text(status: number, body: string): Reply {
  return {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' },
    body,
  }
}
