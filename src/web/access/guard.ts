import type { MiddlewareHandler } from 'hono'
import { Problem } from '../../serving/problem.ts'
import type { Visit, WebContext, WebEnv } from '../view.ts'
import { isSafe, refuseForgery } from './forgery.ts'
import type { Gate } from './gate.ts'
import { newSecret, secretOf, tokenCookie, tokenOf } from './token.ts'
import type { WebAction } from './users.ts'

export interface Guarding {
  readonly gate: Gate
  readonly readOnly: boolean
  readonly origins: readonly string[] | undefined
}

/** Lets a request pass that may do this, and tells what comes after it who it is. */
export function guard(guarding: Guarding, action: WebAction): MiddlewareHandler<WebEnv> {
  const { gate, readOnly, origins } = guarding
  return async (context, next) => {
    const { raw } = context.req
    if (!isSafe(raw.method)) refuseForgery(raw, origins, gate)
    const { allowed, actor } = await gate.ask(raw, action, context.env)
    if (!allowed) throw new Problem(403, 'LOCKSTEP_FORBIDDEN', `you may not ${action} here`)
    if (readOnly && action !== 'view') throw new Problem(403, 'LOCKSTEP_FORBIDDEN', 'this page is read-only')
    context.set('visit', visitOf(context, guarding, actor))
    await next()
  }
}

function visitOf(context: WebContext, guarding: Guarding, actor: string | undefined): Visit {
  const { raw } = context.req
  const { base } = context.env
  let secret = secretOf(raw)
  return {
    base,
    actor,
    token() {
      if (secret === undefined) {
        secret = newSecret()
        const cookie = tokenCookie(secret, base, isSecure(raw, guarding.origins))
        context.header('set-cookie', cookie, { append: true })
      }
      return tokenOf(secret)
    },
    async may(action) {
      if (guarding.readOnly && action !== 'view') return false
      return (await guarding.gate.ask(raw, action, context.env)).allowed
    },
  }
}

/** A browser that came without TLS would drop a Secure cookie. */
function isSecure({ url }: Request, origins: readonly string[] | undefined): boolean {
  return url.startsWith('https:') || (origins?.every((origin) => origin.startsWith('https:')) ?? false)
}
