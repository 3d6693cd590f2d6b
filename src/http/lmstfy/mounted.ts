import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from '../call.ts'
import { fetchHandler } from '../from-fetch.ts'
import { nodeListener } from '../from-node.ts'
import { createLmstfy } from './lmstfy.ts'
import type { LmstfyOptions } from './options.ts'

/** Answers requests, for servers of either kind. Never rejects. */
export interface Mounted {
  /** For Hono, Next.js, Bun, Deno and others. The path of the URL is the one that clients of lmstfy use. */
  fetch(this: void, request: Request): Promise<Response>
  /** For `node:http`, and for Express before anything has read the body. */
  node(this: void, incoming: IncomingMessage, outgoing: ServerResponse): void
}

/** lmstfy's API, to be mounted. */
export interface LockstepLmstfy extends Mounted {
  /** Tokens, limits, metrics. Put it where only operators are. */
  readonly admin: Mounted
  /** Answers consumes that wait with 404, as if their time were up; from now on, none waits. */
  quiet(): void
  /** Ends connections of its own, not the Locksteps that it was given. Requests are answered with 503 from now on. */
  stop(): Promise<void>
}

/**
 * Answers lmstfy's API (https://github.com/bitleak/lmstfy) on queues of ours: queue `q` of namespace `ns` is `ns/q`. Needs the package
 * `prom-client`. The databases must be migrated, and be used by the role of gateways, or by their owner's.
 * @throws OptionError
 */
export function lockstepLmstfy(options: LmstfyOptions): LockstepLmstfy {
  const { api, admin, quiet, stop } = createLmstfy(options)
  return { ...mounted(api), admin: mounted(admin), quiet, stop }
}

function mounted(answer: Answer): Mounted {
  return { fetch: fetchHandler(answer), node: nodeListener(answer) }
}
