import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { endsAfterAnswer, isEnding } from '../serving/lingering.ts'
import { detailsOf, Problem } from '../serving/problem.ts'
import type { Observed } from './observed.ts'
import { newUlid } from './ulid.ts'

/** ms for which the rest is thrown away of what can't be read: a connection with unread bytes is reset, and its answer is lost. */
const LINGER = 1_000
/** What an access log shows for a request whose first line is not known. */
const UNKNOWN = '-'

/** Answers what Node would answer itself, without a handler: requests that it can't read, or that come too slowly. */
export class Malformed {
  readonly #tell: (answer: Observed) => void
  readonly #underWay = new WeakMap<Socket, Set<ServerResponse>>()

  /** `tell`: as `observed` does it. */
  constructor(tell: (answer: Observed) => void) {
    this.#tell = tell
  }

  /** A request that was read has an answer to come. False if its client was told already that it has none. */
  takes(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const { socket } = incoming
    if (isEnding(socket)) {
      incoming.resume()
      return false
    }
    const all = this.#underWay.get(socket) ?? new Set()
    this.#underWay.set(socket, all.add(outgoing))
    outgoing.once('close', () => all.delete(outgoing))
    return true
  }

  /** For the event `clientError`, which Node emits for each part that follows, too. */
  answer(error: NodeJS.ErrnoException, socket: Socket): void {
    const underWay = [...(this.#underWay.get(socket) ?? [])]
    // Where another answer has to come first, or is on its way, this one would be taken for it.
    const isTaken = underWay.some(({ headersSent, req }) => headersSent || req.complete)
    if (error.code === 'ECONNRESET' || isTaken) socket.destroy(error)
    else if (socket.writable) {
      this.#end(socket, problemOf(error.code), UNKNOWN)
      // The handler that waits for the rest of a body learns at once that none comes.
      if (underWay.length > 0) socket.destroySoon()
    }
  }

  /** For the event `connect`, before which Node gives the connection up: nobody else listens to it, or reads it, any more. */
  refuseTunnel(socket: Socket): void {
    socket.on('error', () => {}).resume()
    // Another answer has to come first.
    if (this.#underWay.get(socket)?.size) socket.destroy()
    else this.#end(socket, new Problem(405, 'LOCKSTEP_NOT_FOUND', 'CONNECT is not allowed here'), 'CONNECT')
  }

  #end(socket: Socket, problem: Problem, method: string): void {
    const requestId = newUlid(Date.now())
    endsAfterAnswer(socket)
    socket.end(written(problem, requestId))
    setTimeout(() => socket.destroy(), LINGER).unref()
    const { remoteAddress: address } = socket
    this.#tell({ method, path: UNKNOWN, status: problem.status, requestId, duration: 0, address })
  }
}

function problemOf(code: string | undefined): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem(431, 'LOCKSTEP_TOO_LARGE', 'the headers have more bytes than the server takes')
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new Problem(
        413,
        'LOCKSTEP_TOO_LARGE',
        'the extensions of chunks have more bytes than the server takes',
      )
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem(408, 'LOCKSTEP_SLOW_REQUEST', 'the request did not come in time')
    default:
      return new Problem(400, 'LOCKSTEP_BAD_OPTION', 'the request is not HTTP/1.1')
  }
}

function written(problem: Problem, requestId: string): string {
  const body = JSON.stringify(detailsOf(problem))
  const headers = {
    date: new Date().toUTCString(),
    connection: 'close',
    'content-type': 'application/problem+json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`, ...lines, '', body].join('\r\n')
}
