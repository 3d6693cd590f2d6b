import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { LockstepError } from '../errors.ts'
import { endsAfterAnswer } from '../serving/lingering.ts'
import { pathOf } from '../serving/place.ts'
import { Malformed } from './malformed.ts'
import type { Observed } from './observed.ts'

/** ms: how long a client may take for its headers, and for a whole request. Slower ones are cut off. */
export interface Patience {
  readonly headersTimeout: number
  readonly requestTimeout: number
  /** Between looks for slow clients. */
  readonly connectionsCheckingInterval: number
}

const PATIENCE: Patience = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 2_000,
}
/** ms that a connection may rest: longer than the 60 s after which common load balancers reuse none. */
const KEEP_ALIVE = 75_000
const LARGEST_HEADERS = 16 * 1024

export interface Listening {
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
}

/** A server that can be stopped without cutting anything off. */
export class GatewayServer {
  readonly #server: Server
  readonly #place: Listening
  #isClosing = false

  /** `tell` is told of requests that don't reach the listener, since they can't be read. */
  constructor(
    listener: RequestListener,
    place: Listening,
    tell: (answer: Observed) => void,
    patience = PATIENCE,
  ) {
    const malformed = new Malformed(tell)
    this.#place = place
    this.#server = createServer(
      {
        ...patience,
        keepAliveTimeout: KEEP_ALIVE,
        maxHeaderSize: LARGEST_HEADERS,
      },
      (incoming, outgoing) => {
        if (!malformed.takes(incoming, outgoing)) return
        if (this.#isClosing) {
          // Whoever is answered from now on doesn't send more on this connection.
          outgoing.shouldKeepAlive = false
          endsAfterAnswer(incoming.socket)
        }
        listener(incoming, outgoing)
      },
    )
    this.#server.on('clientError', (error, socket) => malformed.answer(error, socket as Socket))
    this.#server.on('connect', (_, socket) => malformed.refuseTunnel(socket as Socket))
  }

  /** @throws LockstepError `LOCKSTEP_LISTEN` */
  async listen(): Promise<string> {
    const { host, port } = this.#place
    try {
      this.#server.listen(port, host)
      await once(this.#server, 'listening')
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const why = code === 'EADDRINUSE' ? `port ${port} of ${host} is in use` : `can't listen: ${message}`
      throw new LockstepError('LOCKSTEP_LISTEN', `${why}: choose another port, or any free one with 0`)
    }
    const address = this.#server.address() as AddressInfo
    return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
  }

  /** From now on, each answer ends its connection: so clients come by new ones, which may lead elsewhere. */
  closeAnswered(): void {
    this.#isClosing = true
  }

  /** Takes no new connections. */
  drain(): void {
    this.closeAnswered()
    this.#server.close()
    this.#server.closeIdleConnections()
  }

  /** After `drain`: waits for requests under way, `grace` ms at most, and cuts off what is left. */
  async ended(grace: number): Promise<void> {
    if (!this.#server.listening && (await connectionsOf(this.#server)) === 0) return
    const closed = once(this.#server, 'close')
    const idle = setInterval(() => this.#server.closeIdleConnections(), 100)
    const cut = setTimeout(() => this.#server.closeAllConnections(), grace)
    await closed
    clearInterval(idle)
    clearTimeout(cut)
  }
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  )
}

/** Answers by the longest prefix of the path that has a listener; the empty one is everything else's. */
export function byPrefix(listeners: Readonly<Record<string, RequestListener>>): RequestListener {
  const entries = Object.entries(listeners).sort(([a], [b]) => b.length - a.length)
  return (incoming, outgoing) => {
    const path = pathOf(incoming.url ?? '/')
    const found = entries.find(
      ([prefix]) => path === prefix || path.startsWith(`${prefix}/`) || prefix === '',
    )
    found?.[1](incoming, outgoing)
  }
}
