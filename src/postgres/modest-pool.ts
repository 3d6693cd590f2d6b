import pg from 'pg'
import { hasCode } from './failure.ts'

/** The server, the database or the role has as many sessions as it may have. */
const NONE_LEFT = '53300'
/** ms for which a pool asks for no session more after it was refused one. */
const RESTRAINT = 1_000
/** ms for which calls wait meanwhile: until it has asked again. */
const PATIENCE = 2 * RESTRAINT

type Callback = (error: Error | undefined, client: pg.PoolClient | undefined, done: () => void) => void

/** Where the server has no session left, its calls wait a moment for those that the pool has. */
export class ModestPool extends pg.Pool {
  readonly #most: number
  #inUse = 0
  #refusal: unknown
  #restrained: NodeJS.Timeout | undefined

  constructor(config: pg.PoolConfig) {
    super(config)
    this.#most = this.options.max
    this.on('acquire', () => {
      this.#inUse += 1
    })
    this.on('release', () => {
      this.#inUse -= 1
    })
  }

  /** Without those that are still being opened, or closed, which may take long on a silent connection. */
  get #sessions(): number {
    return this.idleCount + this.#inUse
  }

  override connect(): Promise<pg.PoolClient>
  override connect(callback: Callback): void
  override connect(callback?: Callback): Promise<pg.PoolClient> | undefined {
    const connecting = this.#connect()
    if (!callback) return connecting
    connecting.then(
      (client) => callback(undefined, client, client.release),
      (error) => callback(error, undefined, () => {}),
    )
    return undefined
  }

  async #connect(): Promise<pg.PoolClient> {
    const until = performance.now() + PATIENCE
    for (;;) {
      try {
        return await (this.options.max < this.#most ? this.#waitUntil(until) : super.connect())
      } catch (error) {
        // One that is still being opened may be had, too.
        const mayWait = this.totalCount > 0 && performance.now() < until
        if (!hasCode(error, NONE_LEFT) || !mayWait) throw error
        this.#refusal = error
        this.#restrain()
      }
    }
  }

  /** Whoever waits may hold the session that it waits for, as when its transaction needs a second one. */
  #waitUntil(until: number): Promise<pg.PoolClient> {
    const waiting = super.connect()
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        reject(this.#refusal)
        waiting.then(
          (client) => client.release(),
          () => {},
        )
      }
      const timer = setTimeout(giveUp, Math.max(0, until - performance.now()))
      waiting.then(resolve, reject).finally(() => clearTimeout(timer))
    })
  }

  /** To ask again at once, for each call, would burden a server that has none to spare. */
  #restrain(): void {
    this.options.max = Math.max(1, Math.min(this.options.max, this.#sessions))
    clearTimeout(this.#restrained)
    this.#restrained = setTimeout(() => this.#askAgain(), RESTRAINT)
    this.#restrained.unref()
  }

  /** If the server has another session now, it goes to who waits. */
  #askAgain(): void {
    this.options.max = this.#most
    // If there is one already, or no room for one, this would only wait with the others.
    if (this.waitingCount === 0 || this.idleCount > 0 || this.totalCount >= this.#most || this.ending) return
    const asking = super.connect()
    // Or else a refusal would make the pool ask for everyone who waits.
    this.#restrain()
    asking.then(
      (client) => {
        client.release()
        this.#askAgain()
      },
      () => {},
    )
  }
}
