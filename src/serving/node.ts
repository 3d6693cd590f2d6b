import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { TLSSocket } from 'node:tls'
import { type Asked, askedByNode, askedByWeb } from './asked.ts'
import { leavingSignal } from './leaving.ts'
import { endLingering, endsAfterAnswer, isUnread } from './lingering.ts'
import { type Arrival, arrivalAt, arrivalBelow, pathOf } from './place.ts'
import { Problem, problemResponse } from './problem.ts'
import { bytesOf } from './ready.ts'

/** What Express, and middlewares that parse bodies, leave on a request. */
interface Handled extends IncomingMessage {
  readonly baseUrl?: unknown
  readonly originalUrl?: unknown
  readonly body?: unknown
}

export type NodeHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>

/** Serves Node's requests by a function that takes those of the web. `path`: as in WebOptions. */
export function nodeHandler(
  fetch: (request: Request, arrival: Arrival) => Promise<Response>,
  path: string | undefined,
): NodeHandler {
  return handler(requestOf, fetch, problemResponse, path)
}

/** The same for a function that needs less of them. `refuse`: answers what `answer` never sees. */
export function askedHandler(
  answer: (asked: Asked, arrival: Arrival) => Promise<Response>,
  refuse: (problem: Problem) => Response,
  path: string | undefined,
): NodeHandler {
  return handler(askedOf, answer, refuse, path)
}

/** `make`: undefined if the host or the URL is malformed. */
function handler<Made>(
  make: (incoming: Handled, outgoing: ServerResponse) => Made | undefined,
  answer: (made: Made, arrival: Arrival) => Promise<Response>,
  refuse: (problem: Problem) => Response,
  path: string | undefined,
): NodeHandler {
  return async (incoming, outgoing) => {
    const made = make(incoming, outgoing)
    const response = made ? await answer(made, arrivalOf(incoming, path)) : refuse(malformed())
    await (isUnread(incoming)
      ? sendAndClose(response, incoming, outgoing)
      : send(response, outgoing, incoming.method === 'HEAD'))
  }
}

function malformed(): Problem {
  return new Problem(400, 'LOCKSTEP_BAD_OPTION', 'the Host header, or the address, is malformed')
}

function arrivalOf(incoming: Handled, path: string | undefined): Arrival {
  const { baseUrl, url = '/', socket } = incoming
  const pathname = pathOf(url) || '/'
  const mounted = typeof baseUrl === 'string'
  const place = mounted ? arrivalBelow(baseUrl, pathname, path) : arrivalAt(pathname, path)
  return { ...place, address: socket.remoteAddress, incoming }
}

function requestOf(incoming: Handled, outgoing: ServerResponse): Request | undefined {
  const { method = 'GET' } = incoming
  try {
    const headers = headersOf(incoming)
    const signal = leavingSignal(incoming, outgoing)
    const hasBody = method !== 'GET' && method !== 'HEAD'
    const body = hasBody ? bodyOf(incoming, headers) : undefined
    return new Request(urlOf(incoming), { method, headers, signal, body, duplex: 'half' } as RequestInit)
  } catch {
    return undefined
  }
}

function askedOf(incoming: Handled, outgoing: ServerResponse): Asked | undefined {
  if (wasRead(incoming)) {
    const request = requestOf(incoming, outgoing)
    return request && askedByWeb(request)
  }
  try {
    return askedByNode(incoming, outgoing, { url: urlOf(incoming), headers: headersOf(incoming) })
  } catch {
    return undefined
  }
}

/** @throws TypeError */
function urlOf({ headers, socket, url = '/', originalUrl = url }: Handled): string {
  const authority = String(headers[':authority'] ?? (headers.host || 'localhost'))
  if (/[/?#@\\]/.test(authority)) throw new TypeError('a host has no user, path or query')
  const query = /\?[^#]*/.exec(url)?.[0] ?? ''
  const scheme = (socket as TLSSocket).encrypted ? 'https' : 'http'
  return new URL(`${scheme}://${authority}${pathOf(String(originalUrl)) || '/'}${query}`).href
}

/** @throws TypeError */
function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (!name.startsWith(':')) headers.append(name, rawHeaders[at + 1]!)
  }
  return headers
}

/** Whether something before us has read the body. Of one without bytes, only the end shows it. */
function wasRead({ readableDidRead, readableEnded }: IncomingMessage): boolean {
  return readableDidRead || readableEnded
}

/** What has read the body has left what it made of it: of one without bytes, perhaps an object. */
function bodyOf(incoming: Handled, headers: Headers): Uint8Array | ReadableStream | undefined {
  if (!wasRead(incoming)) return Readable.toWeb(incoming) as ReadableStream
  headers.delete('content-length')
  const { body, readableDidRead } = incoming
  if (body === undefined || body === null || body === '' || !readableDidRead) return undefined
  if (body instanceof Uint8Array) return new Uint8Array(body)
  // As bytes: of a text, a Request would say that it's plain text.
  return new TextEncoder().encode(typeof body === 'string' ? body : textOf(body, headers))
}

function textOf(parsed: unknown, headers: Headers): string {
  const isForm = /^application\/x-www-form-urlencoded/i.test(headers.get('content-type') ?? '')
  return isForm ? new URLSearchParams(parsed as Record<string, string>).toString() : JSON.stringify(parsed)
}

/** What is left of the request's body may have no end, so the connection is closed. */
async function sendAndClose(
  response: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const body = await bytesOf(response)
  setHead(response, outgoing)
  outgoing.setHeader('connection', 'close').setHeader('content-length', body.length)
  endsAfterAnswer(incoming.socket)
  endLingering(incoming, outgoing, body)
}

function setHead(response: Response, outgoing: ServerResponse): void {
  outgoing.statusCode = response.status
  for (const [name, value] of response.headers) if (name !== 'set-cookie') outgoing.setHeader(name, value)
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) outgoing.appendHeader('set-cookie', cookies)
}

/** Stops reading the response when the client goes away. */
async function send(response: Response, outgoing: ServerResponse, isHead: boolean): Promise<void> {
  setHead(response, outgoing)
  if (!response.body || isHead) {
    await response.body?.cancel()
    outgoing.end()
    return
  }
  // It's there already, and needs no stream.
  if (response.headers.has('content-length')) {
    outgoing.end(await bytesOf(response))
    return
  }
  outgoing.flushHeaders()
  // Fails if the client has left: there is no one to tell.
  await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), outgoing).catch(
    () => {},
  )
}
