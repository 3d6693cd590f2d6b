import type { IncomingMessage, RequestListener } from 'node:http'
import { DEFAULT_POOL } from './lmstfy/token.ts'

const BEARER = /^(Bearer +)([-_A-Za-z0-9]+):/i

/** Sends a request to the pool that its bearer token names (`eu:token`), without that prefix; without one, to `default`. */
export function byPool(pools: ReadonlyMap<string, RequestListener>): RequestListener {
  const standard = pools.get(DEFAULT_POOL)!
  return (incoming, outgoing) => {
    const [prefix, scheme, name] = BEARER.exec(incoming.headers.authorization ?? '') ?? []
    const listener = name === undefined ? standard : pools.get(name)
    // One that names no pool is no token of ours: the default one says so.
    if (prefix !== undefined && listener) withoutPrefix(incoming, prefix, scheme!)
    ;(listener ?? standard)(incoming, outgoing)
  }
}

/** In both forms of the headers, since listeners may read either. */
function withoutPrefix(incoming: IncomingMessage, prefix: string, scheme: string): void {
  const strip = (value: string) => (value.startsWith(prefix) ? scheme + value.slice(prefix.length) : value)
  incoming.headers.authorization = strip(incoming.headers.authorization!)
  for (let at = 0; at < incoming.rawHeaders.length; at += 2)
    if (incoming.rawHeaders[at]!.toLowerCase() === 'authorization')
      incoming.rawHeaders[at + 1] = strip(incoming.rawHeaders[at + 1]!)
}
