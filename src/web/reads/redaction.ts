import type { Logger } from '../../logger.ts'
import { ignoreRejection } from '../../promises.ts'
import type { PayloadText } from '../../store/excerpt.ts'
import type { WebOptions } from '../options.ts'

/** A payload as it leaves. */
export interface ShownPayload {
  /** Its JSON text, or the beginning of it; numbers have all their digits. Null: it is hidden. */
  readonly json: string | null
  /** Whether it is only the beginning. */
  readonly cut: boolean
}

interface About {
  readonly queue: string
  readonly id: string
}

const HIDDEN: ShownPayload = { json: null, cut: false }

/** Applies the application's `redact`. It sees whole payloads, so it is applied before they are cut. */
export class Redaction {
  readonly #redact: WebOptions['redact']
  readonly #logger: Logger

  constructor(redact: WebOptions['redact'], logger: Logger) {
    this.#redact = redact
    this.#logger = logger
  }

  /** The most characters to read of a payload that is shown with `length`. */
  extent(length: number): number | undefined {
    return this.#redact ? undefined : length
  }

  show({ text, cut }: PayloadText, about: About, length: number): ShownPayload {
    if (!this.#redact) return { json: text, cut }
    try {
      const shown = this.#redacted(text, about)
      return shown === undefined ? HIDDEN : beginningOf(shown, length)
    } catch (error) {
      this.#logger.error({ error, ...about }, 'redact failed, so the payload is hidden')
      return HIDDEN
    }
  }

  /** The stored text if nothing was changed, since JavaScript may not have all its digits. The hook may change it in place. */
  #redacted(text: string, about: About): string | undefined {
    const payload: unknown = JSON.parse(text)
    const before = JSON.stringify(payload)
    const result = this.#redact!(payload, about)
    if (isThenable(result)) {
      ignoreRejection(result)
      throw new TypeError('redact returned a promise: it must return what is shown')
    }
    const after = JSON.stringify(result) as string | undefined
    return after === before ? text : after
  }
}

function isThenable(value: unknown): boolean {
  return typeof (value as { readonly then?: unknown } | null | undefined)?.then === 'function'
}

function beginningOf(text: string, length: number): ShownPayload {
  if (text.length <= length) return { json: text, cut: false }
  const characters = Array.from(text.slice(0, 2 * length))
  const json = characters.slice(0, length).join('')
  return { json, cut: json.length < text.length }
}
