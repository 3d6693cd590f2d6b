import type { Answer, Reply } from './call.ts'

/** ms for which an answer of the database counts. */
const VALID_FOR = 1_000

/** What orchestrators ask of a gateway: whether it lives, and whether it should be sent requests. */
export class Probes {
  readonly #ask: () => Promise<unknown>
  #asking: { readonly until: number; readonly reason: Promise<string | undefined> } | undefined
  #stopping = false

  /** `ask` rejects if a database doesn't answer. */
  constructor(ask: () => Promise<unknown>) {
    this.#ask = ask
  }

  stopping(): void {
    this.#stopping = true
  }

  readonly live: Answer = async () => text(200, 'ok')

  readonly ready: Answer = async () => {
    const reason = this.#stopping ? 'it is stopping' : await this.#reason()
    return reason === undefined ? text(200, 'ok') : text(503, reason)
  }

  /** However many ask, the database is asked once a second. */
  #reason(): Promise<string | undefined> {
    if (!this.#asking || this.#asking.until <= performance.now()) {
      const reason = this.#ask().then(
        () => undefined,
        () => 'a database does not answer',
      )
      this.#asking = { until: performance.now() + VALID_FOR, reason }
    }
    return this.#asking.reason
  }
}

function text(status: number, body: string): Reply {
  return {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' },
    body,
  }
}
