import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { cookiesOf } from './cookies.ts'

export const TOKEN_HEADER = 'x-lockstep-token'
const COOKIE = 'lockstep-token'
const SECRET = /^[\w-]{43}$/

/** The secret in the visitor's cookie. */
export function secretOf(request: Request): string | undefined {
  return cookiesOf(request.headers.get('cookie'), COOKIE).find((value) => SECRET.test(value))
}

export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * What a page shows, and its requests send in a header. It follows from the cookie's secret, so any process that serves the
 * page can check it, and nothing of the cookie's can be read from the page.
 */
export function tokenOf(secret: string): string {
  return createHash('sha256').update(`lockstep token ${secret}`).digest('base64url')
}

/** `path`: where the page is mounted. */
export function tokenCookie(secret: string, path: string, secure: boolean): string {
  return `${COOKIE}=${secret}; Path=${path || '/'}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

/** Several cookies of one name may come, from pages under paths of which one contains the other. */
export function matchesToken(request: Request): boolean {
  const given = Buffer.from(request.headers.get(TOKEN_HEADER) ?? '')
  return cookiesOf(request.headers.get('cookie'), COOKIE)
    .filter((value) => SECRET.test(value))
    .some((secret) => {
      const token = Buffer.from(tokenOf(secret))
      return token.length === given.length && timingSafeEqual(token, given)
    })
}
