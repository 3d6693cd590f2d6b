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

  /**
   * Answers the link by leading to the page, without the token in its address; undefined for all other requests. It's no redirect:
   * who clicks the link on another page, as in a terminal that is one, would come to ours without the cookie, since the browser counts
   * that as a step of the other page's.
   */
  answer({ method, url = '/', headers }: IncomingMessage): Reply | undefined {
    const token = new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]).get(PARAMETER)
    if (token === null || method !== 'GET') return undefined
    const location = `${this.#path}/`
    const follows = { status: 200, text: 'You are logged in: the page follows.' }
    const refresh = `0; url=${location}`
    if (this.holds(headers.cookie)) return { ...follows, headers: { refresh } }
    if (this.#link === undefined || !isEqual(token, this.#link))
      return { status: 403, text: 'The link was used before, or belongs to another start of lockstep web.' }
    this.#link = undefined
    const cookie = `${this.#cookie}=${this.#session}; Path=${location}; HttpOnly; SameSite=Strict`
    return { ...follows, headers: { refresh, 'set-cookie': cookie } }
  }
}

function newToken(): string {
  return randomBytes(32).toString('base64url')
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
