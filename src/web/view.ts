import type { Context, Hono } from 'hono'
import type { Arrival } from '../serving/place.ts'
import type { WebAction } from './access/users.ts'
import type { Reads } from './reads/reads.ts'

/** What pages are made of, for all requests. */
export interface View {
  /** Everything that can be shown; payloads are redacted. */
  readonly reads: Reads
  /** Nobody may act or configure. */
  readonly readOnly: boolean
}

/** What a request's page needs to know of its visitor: `context.var.visit`. Who may not view gets no page. */
export interface Visit {
  /** Links begin with it: `${base}/queues`. Empty if the page is mounted at the root. */
  readonly base: string
  /** Who it is, if that is known. */
  readonly actor: string | undefined
  /**
   * Goes into the header X-Lockstep-Token of requests that change something. The response then sets the cookie that it is
   * bound to, unless the visitor has it already: make that by `context.html` and the like, which keep its headers.
   */
  token(): string
  /** For what to offer; the API decides for itself. */
  may(action: WebAction): Promise<boolean>
}

/** The environment of every request in Hono's terms. `context.req.path` is below the place where the page is mounted. */
export interface WebEnv {
  Bindings: Arrival
  Variables: { visit: Visit }
}

export type WebApp = Hono<WebEnv>
export type WebContext = Context<WebEnv>
