import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Health, Verdicts } from './health.ts'

/** The part of a Worker that probes ask. */
export interface Probed {
  health(): Health
}

/**
 * `/healthz` asks the same as `/livez`: what restarts a process must not depend on the database, nor on whether the process is
 * stopping.
 */
const VERDICTS: Readonly<Record<string, 'live' | 'ready' | 'started'>> = {
  livez: 'live',
  healthz: 'live',
  readyz: 'ready',
  startupz: 'started',
}

const HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

interface Answer {
  readonly status: number
  readonly body: string
}

/**
 * Answers a probe, as servers do whose handlers take a `Request`: those of Hono, Next.js, Bun and Deno. The last part of the
 * path asks for something: `livez`, `readyz`, `startupz`, or `healthz`, which is `livez`. The answer is 200 or 503, with the
 * worker's health as JSON; 404 for another path, and 405 for other methods than GET and HEAD.
 */
export function healthResponse(worker: Probed, request: Pick<Request, 'url' | 'method'>): Response {
  const { status, body } = answer(request.url, request.method, () => worker.health())
  return new Response(request.method === 'HEAD' ? null : body, { status, headers: HEADERS })
}

/** Returns a listener for a server of `node:http`, or a handler for Express, that answers as `healthResponse` does. */
export function healthListener(worker: Probed): (request: IncomingMessage, response: ServerResponse) => void {
  return probeListener(() => worker.health())
}

/** Answers probes by what `look` returns, or will. It is not asked for other paths. */
export function probeListener(
  look: () => Verdicts | Promise<Verdicts>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  return async ({ url = '', method = '' }, response) => {
    const refused = refusal(url, method)
    const { status, body } = refused ?? verdict(nameOf(url), await look())
    response.writeHead(status, HEADERS)
    response.end(method === 'HEAD' ? undefined : body)
  }
}

function answer(url: string, method: string, look: () => Verdicts): Answer {
  return refusal(url, method) ?? verdict(nameOf(url), look())
}

function refusal(url: string, method: string): Answer | undefined {
  if (!Object.hasOwn(VERDICTS, nameOf(url))) return told(404, 'ask for /livez, /readyz or /startupz')
  if (method !== 'GET' && method !== 'HEAD') return told(405, 'ask by GET')
  return undefined
}

function told(status: number, error: string): Answer {
  return { status, body: `${JSON.stringify({ error })}\n` }
}

function verdict(name: string, health: Verdicts): Answer {
  return { status: health[VERDICTS[name]!] ? 200 : 503, body: `${JSON.stringify(health)}\n` }
}

/** The last part of a path, wherever the application has mounted it. */
function nameOf(url: string): string {
  return /([^/?#]*)\/?(?:[?#].*)?$/.exec(url)?.[1] ?? ''
}
