import { Problem } from '../../serving/problem.ts'
import type { Gate } from './gate.ts'
import { matchesToken, TOKEN_HEADER } from './token.ts'

const SAFE = ['GET', 'HEAD', 'OPTIONS']

export function isSafe(method: string): boolean {
  return SAFE.includes(method)
}

/**
 * Refuses what a page of another origin may have made the visitor's browser send. First by what the browser says of where
 * the request comes from; then by the token, which other origins can't read. A script's request without both needs
 * credentials in a header, and a type that no form can send without asking first.
 * @throws Problem
 */
export function refuseForgery(
  request: Request,
  origins: readonly string[] | undefined,
  { scripts }: Pick<Gate, 'scripts'>,
): void {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (site !== null && site !== 'same-origin') throw forged(`Sec-Fetch-Site is ${site}`)
  if (origin !== null && !isOwn(origin, request, origins))
    throw forged('its Origin is another (behind a proxy that changes Host, set the option `origins`)')
  if (request.headers.has(TOKEN_HEADER)) {
    if (matchesToken(request)) return
    throw forged('its token is wrong: load the page again')
  }
  const fromBrowser = site !== null || origin !== null || request.headers.has('cookie')
  if (fromBrowser || !scripts)
    throw forged(`it has no ${TOKEN_HEADER}: get one with its cookie from api/v1/session`)
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) throw forged('its Content-Type is not application/json')
}

/** A proxy may end TLS before us. But a page that was loaded without TLS must not act on one that has it. */
function isOwn(origin: string, { url, headers }: Request, origins: readonly string[] | undefined): boolean {
  if (origins) return origins.includes(origin)
  if (!URL.canParse(origin)) return false
  const [theirs, own] = [new URL(origin), new URL(url)]
  if (own.protocol === 'https:' && theirs.protocol !== 'https:') return false
  const host = (headers.get('host') ?? own.host).toLowerCase()
  return /^https?:$/.test(theirs.protocol) && (theirs.host === host || portless(theirs, host))
}

/** Host may name the port that the scheme implies. */
function portless({ protocol, host, port }: URL, named: string): boolean {
  return port === '' && named === `${host}:${protocol === 'https:' ? 443 : 80}`
}

function forged(why: string): Problem {
  return new Problem(403, 'LOCKSTEP_FORGERY', `the request may come from another page: ${why}`)
}
