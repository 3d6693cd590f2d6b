import type { IncomingMessage } from 'node:http'

/** How a request has come. */
export interface Arrival {
  /** Where it is mounted, as clients see it, without a slash at the end; empty for the root. */
  readonly base: string
  /** The path below that, percent-encoded as it came. */
  readonly path: string
  /** The network address of the other end, if it is known. */
  readonly address?: string | undefined
  /** Node's request, if there is one. */
  readonly incoming?: IncomingMessage | undefined
}

/** Whether its client went away before all of it had come, or before the answer. */
export function hasLeft({ signal }: Pick<Request, 'signal'>, { incoming }: Arrival): boolean {
  return signal.aborted || (incoming?.destroyed === true && !incoming.complete)
}

/** What mounts the page may have removed its path from the URL already, as Hono's `mount` does. */
export function arrivalAt(pathname: string, path: string | undefined): Arrival {
  const base = path ?? ''
  if (base !== '' && (pathname === base || pathname.startsWith(`${base}/`)))
    return { base, path: pathname.slice(base.length) || '/' }
  return { base, path: pathname }
}

/** Express says where it has mounted the page, and removes that from the URL. */
export function arrivalBelow(mounted: string, pathname: string, path: string | undefined): Arrival {
  // It goes into links and a cookie: `//host` would lead elsewhere.
  const found = mounted
    .replace(/^\/+/, '/')
    .replace(/\/+$/, '')
    .replace(/[;,"'<>\s\\]/g, encodeURIComponent)
  return { base: path ?? found, path: pathname }
}

/** The URL of a request without scheme and host: proxies may send whole ones. */
export function localOf(url: string): string {
  return url.startsWith('/') ? url : url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')
}

/** Its path, as it came. */
export function pathOf(url: string): string {
  return localOf(url).replace(/[?#].*$/s, '')
}
