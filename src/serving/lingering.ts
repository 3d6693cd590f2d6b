import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** ms for which the rest of a body is thrown away that nobody wants, and less if nothing comes for so long. */
const LONGEST = 5_000
const QUIET = 1_000

const ending = new WeakSet<Socket>()

/** Its client is told by the answer that is on its way that no other one comes. */
export function endsAfterAnswer(socket: Socket): void {
  ending.add(socket)
}

/** Whether it ends after an answer. Node reads on, but what was performed now would be sent, and performed, again. */
export function isEnding(socket: Socket): boolean {
  return ending.has(socket)
}

/** Whether more of the body may come than anyone reads. */
export function isUnread({ complete, httpVersionMajor }: IncomingMessage): boolean {
  return !complete && httpVersionMajor === 1
}

/**
 * Sends the rest of an answer whose head has been written, to a request that was refused before its body was read. A connection that
 * is closed while bytes of it are on the way is reset, and the client's system throws away what it has received: so those are
 * awaited, for a while.
 */
export function endLingering(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  body: Buffer | string,
): void {
  if (!isUnread(incoming) || incoming.destroyed) {
    outgoing.end(body)
    return
  }
  if (body.length > 0) outgoing.write(body)
  else outgoing.flushHeaders()
  const { socket } = incoming
  const end = () => {
    clearTimeout(longest)
    clearTimeout(quiet)
    outgoing.end()
    if (!incoming.complete) outgoing.once('finish', () => socket.destroySoon())
  }
  const longest = setTimeout(end, LONGEST)
  const quiet = setTimeout(end, QUIET)
  // Whoever has begun to read would let it wait.
  incoming.removeAllListeners('data').removeAllListeners('readable')
  incoming.once('close', end).once('end', end)
  incoming.on('data', () => quiet.refresh())
}
