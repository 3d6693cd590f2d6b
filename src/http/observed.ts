import type { RequestListener } from 'node:http'
import { pathOf } from '../serving/place.ts'

/** What is told of an answer once it has gone out. */
export interface Observed {
  readonly method: string
  /** Percent-encoded, without the query, in which a token may be. */
  readonly path: string
  /** `CLIENT_LEFT`, as common proxies have it, if the client went away before. */
  readonly status: number
  /** What the answer's header `X-Request-ID` says. */
  readonly requestId: string | undefined
  /** ms. */
  readonly duration: number
  readonly address: string | undefined
}

/** No status of HTTP's: nobody read the answer. */
export const CLIENT_LEFT = 499

export function observed(listener: RequestListener, tell: (answer: Observed) => void): RequestListener {
  return (incoming, outgoing) => {
    const begun = performance.now()
    const { method = 'GET', url = '/', socket } = incoming
    const address = socket.remoteAddress
    outgoing.once('close', () =>
      tell({
        method,
        path: pathOf(url),
        status: outgoing.writableFinished ? outgoing.statusCode : CLIENT_LEFT,
        requestId: outgoing.getHeader('x-request-id')?.toString(),
        duration: performance.now() - begun,
        address,
      }),
    )
    listener(incoming, outgoing)
  }
}
