import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { leavingSignal } from '../serving/leaving.ts'
import { endLingering, endsAfterAnswer } from '../serving/lingering.ts'
import { localOf } from '../serving/place.ts'
import type { Answer, Call, Reply } from './call.ts'

/** Serves Node's requests. `answer` never rejects. */
export function nodeListener(answer: Answer): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    const call = new NodeCall(incoming, outgoing)
    void answer(call).then((reply) => send(reply, call, incoming, outgoing))
  }
}

const numbers = new WeakMap<Socket, number>()
let connections = 0

function numberOf(socket: Socket): number {
  let number = numbers.get(socket)
  if (number === undefined) {
    connections += 1
    number = connections
    numbers.set(socket, number)
  }
  return number
}

class NodeCall implements Call {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly address: string | undefined
  /** The rest of a body that was refused is not read. */
  isCutOff = false
  readonly #incoming: IncomingMessage
  readonly #outgoing: ServerResponse
  #leaving: AbortSignal | undefined

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    const { method = 'GET', url = '/' } = incoming
    const [path, query] = parted(url)
    this.method = method
    this.path = path
    this.query = new URLSearchParams(query)
    // Once the client has left, nobody knows it any more.
    this.address = incoming.socket.remoteAddress
    this.#incoming = incoming
    this.#outgoing = outgoing
  }

  header(name: string): string | undefined {
    const value = this.#incoming.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  *headers(): Iterable<readonly [string, string]> {
    const { rawHeaders } = this.#incoming
    for (let at = 0; at < rawHeaders.length; at += 2)
      yield [rawHeaders[at]!.toLowerCase(), rawHeaders[at + 1]!]
  }

  async body(most: number, onBytes?: (bytes: number) => void): Promise<Buffer | undefined> {
    // Until all of it has come.
    this.isCutOff = true
    const announced = Number(this.#incoming.headers['content-length'] ?? 0)
    if (announced > most) return undefined
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of this.#incoming.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length
      if (bytes > most) return undefined
      onBytes?.(chunk.length)
      chunks.push(chunk)
    }
    this.isCutOff = false
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  }

  /** Made when somebody asks for it: most requests need none. */
  get signal(): AbortSignal {
    if (!this.#leaving) {
      // A socket that nobody reads, since a body fills it, never says that it was closed.
      this.#incoming.resume()
      this.#leaving = leavingSignal(this.#incoming, this.#outgoing)
    }
    return this.#leaving
  }

  get connection(): number {
    return numberOf(this.#incoming.socket)
  }
}

function parted(url: string): [path: string, query: string] {
  const local = localOf(url)
  const at = local.search(/[?#]/)
  if (at < 0) return [local || '/', '']
  return [local.slice(0, at) || '/', local.slice(at + 1).replace(/#.*$/s, '')]
}

/** A connection on which more of a body may come than anyone reads is ended. */
function send(
  { status, headers, body = '' }: Reply,
  { isCutOff }: NodeCall,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  if (outgoing.destroyed) return
  const length = status === 204 ? {} : { 'content-length': Buffer.byteLength(body) }
  if (isCutOff) endsAfterAnswer(incoming.socket)
  outgoing.writeHead(status, { ...headers, ...length, ...(isCutOff && { connection: 'close' }) })
  endLingering(incoming, outgoing, body)
}
