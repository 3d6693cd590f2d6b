import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** What happens if a connection ends before responses have it that wait for an earlier one of the same connection. */
const queues = new WeakMap<Socket, Set<() => void>>()

/** Aborted when the client goes away before it has its answer. */
export function leavingSignal(incoming: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  const leaving = new AbortController()
  const leave = () => leaving.abort(new Error('the client went away'))
  if (outgoing.destroyed) leave()
  outgoing.once('close', () => outgoing.writableFinished || leave())
  // A client may send more requests before it has the answer to the first: Node doesn't tell their responses that it went away.
  if (!outgoing.socket && incoming.httpVersionMajor === 1) whileQueued(incoming.socket, outgoing, leave)
  return leaving.signal
}

function whileQueued(socket: Socket, outgoing: ServerResponse, leave: () => void): void {
  if (socket.destroyed) {
    leave()
    return
  }
  const queue = queueOf(socket)
  queue.add(leave)
  outgoing.once('socket', () => queue.delete(leave))
}

/** One listener for a connection: Node warns of many. */
function queueOf(socket: Socket): Set<() => void> {
  let queue = queues.get(socket)
  if (!queue) {
    const all = new Set<() => void>()
    socket.once('close', () => {
      for (const leave of all) leave()
    })
    queues.set(socket, all)
    queue = all
  }
  return queue
}
