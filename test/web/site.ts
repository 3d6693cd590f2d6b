import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach } from 'vitest'

/** An answer, read to its end. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body, as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  readonly json: any
}

export interface Asking {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Anything but text is sent as JSON. */
  readonly body?: unknown
}

/** What a browser keeps of a site, and what its page sends. */
export interface Session {
  readonly cookie: string
  readonly token: string
}

/** A site over HTTP, and requests to it exactly as given: `fetch` has headers of its own. */
export class Site {
  readonly origin: string

  constructor(origin: string) {
    this.origin = origin
  }

  async ask(path: string, asking: Asking = {}): Promise<Answer> {
    const incoming = await this.begin(path, asking)
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const headers = new Headers()
    for (const [name, value] of Object.entries(incoming.headers))
      for (const one of [value].flat()) headers.append(name, one!)
    return {
      status: incoming.statusCode!,
      headers,
      text,
      get json() {
        return JSON.parse(text)
      },
    }
  }

  /** The answer once its headers have come. */
  async begin(path: string, { method, headers = {}, body }: Asking = {}): Promise<IncomingMessage> {
    const outgoing = request(this.origin, {
      path,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    })
    outgoing.end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body))
    const [incoming] = await once(outgoing, 'response')
    // The answer may come before all was sent, and the connection end then.
    outgoing.on('error', () => {})
    return incoming
  }

  /** As a browser would: loads what gives the token, with its cookie. */
  async visit(base = '', headers: Readonly<Record<string, string>> = {}): Promise<Session> {
    const answer = await this.ask(`${base}/api/v1/session`, { headers })
    if (answer.status !== 200) throw new Error(answer.text)
    return { cookie: answer.headers.getSetCookie()[0]!.split(';')[0]!, token: answer.json.token }
  }

  /** The headers of a request from a page of the site. */
  from({ cookie, token }: Session): Record<string, string> {
    return { origin: this.origin, 'sec-fetch-site': 'same-origin', cookie, 'x-lockstep-token': token }
  }

  /** Changes something, as a page of the site does it. */
  async act(path: string, body: unknown = {}, base = ''): Promise<Answer> {
    return this.ask(`${base}${path}`, { body, headers: this.from(await this.visit(base)) })
  }
}

const servers: Server[] = []

/** Until the test ends. */
export async function serve(listener: RequestListener): Promise<Site> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return new Site(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

afterEach(async () => {
  for (const server of servers.splice(0)) {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
})

/** The lines of an answer that reports progress. */
// biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
export function linesOf({ text }: Answer): any[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

export function basic(username: string, password: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
}
