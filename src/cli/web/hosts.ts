import { isLoopback } from './access.ts'

/**
 * Whether a header Host names this machine. A page of another host can have its own name lead to 127.0.0.1, and its requests
 * then count as of one origin with ours; but they name that host. Ports are not compared: a tunnel has its own.
 */
export function namesThisMachine(host: string | undefined, origins: readonly string[] = []): boolean {
  const address = `http://${host}`
  if (host === undefined || !URL.canParse(address)) return false
  const url = new URL(address)
  return (
    isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1')) ||
    origins.some((origin) => URL.canParse(origin) && new URL(origin).hostname === url.hostname)
  )
}
