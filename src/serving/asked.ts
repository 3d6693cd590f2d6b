import type { IncomingMessage, ServerResponse } from 'node:http'
import { leavingSignal } from './leaving.ts'

/** What answers need of a request. One of the web has it, but to make that of Node's takes longer than most answers. */
export interface Asked extends Pick<Request, 'method' | 'url' | 'headers' | 'signal'> {
  /**
   * Reads the body, once. Resolves to whether all of it came within `timeout` ms. Rejects if `onChunk` throws, or the client goes
   * away. What is left then stays unread.
   */
  read(onChunk: (chunk: Uint8Array) => void, timeout: number): Promise<boolean>
}

export function askedByWeb(request: Request): Asked {
  const { method, url, headers } = request
  return {
    method,
    url,
    headers,
    get signal() {
      return request.signal
    },
    read: (onChunk, timeout) => readWeb(request.body, onChunk, timeout),
  }
}

async function readWeb(
  body: ReadableStream<Uint8Array> | null,
  onChunk: (chunk: Uint8Array) => void,
  timeout: number,
): Promise<boolean> {
  if (body === null) return true
  const reader = body.getReader()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    reader.cancel().catch(() => {})
  }, timeout)
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) onChunk(next.value)
  } finally {
    clearTimeout(timer)
    // Whoever sends the answer ends the rest: cancelled, it would be lost with the answer.
    if (!isLate) reader.releaseLock()
  }
  return !isLate
}

/** Of a request that nobody has begun to read. */
export function askedByNode(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { url, headers }: Pick<Asked, 'url' | 'headers'>,
): Asked {
  let leaving: AbortSignal | undefined
  return {
    method: incoming.method!,
    url,
    headers,
    // Most need none.
    get signal() {
      leaving ??= leavingSignal(incoming, outgoing)
      return leaving
    },
    read: (onChunk, timeout) => readNode(incoming, onChunk, timeout),
  }
}

function readNode(
  incoming: IncomingMessage,
  onChunk: (chunk: Uint8Array) => void,
  timeout: number,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer)
      incoming.off('data', take).off('end', complete).off('close', leave)
      settle()
    }
    const take = (chunk: Uint8Array) => {
      try {
        onChunk(chunk)
      } catch (error) {
        end(() => reject(error))
      }
    }
    const complete = () => end(() => resolve(true))
    const leave = () => end(() => reject(new Error('the client went away')))
    const timer = setTimeout(() => end(() => resolve(false)), timeout)
    // Its error, if there is one, says no more than that it was closed.
    incoming.on('data', take).on('end', complete).on('close', leave).on('error', ignore)
    if (incoming.destroyed) leave()
  })
}

function ignore(): void {}
