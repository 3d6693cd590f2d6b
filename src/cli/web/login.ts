import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { cookiesOf } from '../../web/access/cookies.ts'

/** An answer in place of the page. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly text?: string
}

const PARAMETER = 'login'

/** Exchanges a link that works once for a session, which lasts as long as this process. */
export class Login {
  readonly #session = newToken()
  #link: string | undefined = newToken()
  #cookie = 'lockstep-session'
  readonly #path: string

  /** `path`: that of the page, without a slash at its end. */
  constructor(path: string) {
    this.#path = path
  }

  /** The link below an origin. All ports of a host share their cookies, so the session's has the port in its name. */
  linkAt(origin: string): string {
    this.#cookie = `lockstep-session-${new URL(origin).port}`
    return `${origin}${this.#path}/?${PARAMETER}=${this.#link}`
  }

  /** Whether a request with these cookies belongs to the session. */
  holds(cookies: string | null | undefined): boolean {
    return cookiesOf(cookies, this.#cookie).some((value) => isEqual(value, this.#session))
  }

  /** Answers the link by leading to the page, without the token in its address; undefined for all other requests. */
  answer({ method, url = '/', headers }: IncomingMessage): Reply | undefined {
    const token = new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]).get(PARAMETER)
    if (token === null || method !== 'GET') return undefined
    const location = `${this.#path}/`
    if (this.holds(headers.cookie)) return { status: 303, headers: { location } }
    if (this.#link === undefined || !isEqual(token, this.#link))
      return { status: 403, text: 'The link was used before, or belongs to another start of lockstep web.' }
    this.#link = undefined
    const cookie = `${this.#cookie}=${this.#session}; Path=${location}; HttpOnly; SameSite=Strict`
    return { status: 303, headers: { location, 'set-cookie': cookie } }
  }
}

function newToken(): string {
  return randomBytes(32).toString('base64url')
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
