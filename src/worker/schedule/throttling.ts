import type { Instruments } from '../../instruments.ts'
import type { Logger } from '../../logger.ts'
import type { Limiting } from '../../store/limits.ts'
import type { ServerClock } from './server-clock.ts'

/** Most queues and tenants that are kept in mind; nothing is told of further ones. */
const MOST = 1_000
/** ms between looks whose time is over. */
const LOOK = 500
/** ms after which one that claims meet no more is no longer throttled: between two jobs it is met again. */
const GRACE = 1_500

interface Throttle {
  readonly queue: string
  readonly tenant: string | null
  /** ms of the monotonic clock until when claims may not meet it. */
  lasts: number
}

export interface ThrottlingOptions {
  readonly instruments: Instruments
  readonly logger: Logger
  readonly clock: ServerClock
}

/** Tells when limits of a queue or of a tenant begin and end to keep jobs waiting, as claims of this process meet them. */
export class Throttling {
  readonly #options: ThrottlingOptions
  readonly #throttles = new Map<string, Throttle>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: ThrottlingOptions) {
    this.#options = options
  }

  /** A claim of a queue has met these limits. */
  meet(queue: string, limits: readonly Limiting[]): void {
    for (const { tenant, until } of limits) {
      const wait = until === null ? 0 : Math.max(0, (until - this.#options.clock.now()) / 1_000)
      const lasts = performance.now() + wait + GRACE
      const key = keyOf(queue, tenant)
      const known = this.#throttles.get(key)
      if (known) known.lasts = Math.max(known.lasts, lasts)
      else if (this.#throttles.size < MOST) this.#begin(key, { queue, tenant, lasts }, until)
    }
  }

  /** A claim has not met these, though they should have lasted. Other lanes meet them again within `trust` ms, if they do. */
  doubt(queue: string, tenants: readonly (string | null)[], trust: number): void {
    for (const tenant of tenants) {
      const known = this.#throttles.get(keyOf(queue, tenant))
      if (known) known.lasts = Math.min(known.lasts, performance.now() + trust + GRACE)
    }
  }

  #begin(key: string, throttle: Throttle, until: number | null): void {
    this.#throttles.set(key, throttle)
    const { queue, tenant } = throttle
    const told = { queue, tenant, until: until === null ? null : new Date(until / 1_000) }
    this.#options.logger.info({ event: 'throttled', ...told }, 'a limit is reached: jobs wait')
    this.#options.instruments.tell('throttle', told)
    this.#timer ??= setInterval(() => this.#look(), LOOK).unref()
  }

  #look(): void {
    const now = performance.now()
    for (const [key, { queue, tenant, lasts }] of this.#throttles) {
      if (lasts > now) continue
      this.#throttles.delete(key)
      this.#options.logger.info(
        { event: 'unthrottled', queue, tenant },
        'a limit keeps no jobs waiting any more',
      )
      this.#options.instruments.tell('unthrottle', { queue, tenant })
    }
    if (this.#throttles.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function keyOf(queue: string, tenant: string | null): string {
  return JSON.stringify([queue, tenant])
}
