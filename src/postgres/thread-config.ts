import type { ConnectionConfig } from './client.ts'
import { lastPassword } from './pool-options.ts'

/** How a thread gets connections. Functions can't be passed to it. */
export interface ThreadConfig {
  readonly config: ConnectionConfig
  /**
   * What it needs the main thread for: nothing; the `password` of each connection that it opens; or `sessions`, all that it
   * sends, since what opens a connection is a function.
   */
  readonly needs: 'nothing' | 'password' | 'sessions'
}

/** A config for a thread. */
export function forThread(config: ConnectionConfig): ThreadConfig {
  if (needsMainThread(config)) return { config: {}, needs: 'sessions' }
  const { create, types, password, ssl, ...rest } = config
  const login = typeof password === 'function' ? undefined : password
  return {
    config: {
      ...rest,
      ...(login === undefined ? {} : { password: login }),
      // The driver hides the key from copies.
      ...(ssl === undefined
        ? {}
        : { ssl: typeof ssl === 'object' && ssl.key ? { ...ssl, key: ssl.key } : ssl }),
    },
    needs: typeof password === 'function' ? 'password' : 'nothing',
  }
}

/**
 * The same for a thread that the main thread waits for, and so can't ask: with the last password, which may be too old.
 * Undefined if it could not connect.
 */
export function forThreadAlone(config: ConnectionConfig): ConnectionConfig | undefined {
  const { config: copied, needs } = forThread(config)
  if (needs === 'nothing') return copied
  const password = lastPassword(config)
  return needs === 'password' && typeof password === 'string' ? { ...copied, password } : undefined
}

function needsMainThread({ create, module, stream, ssl }: ConnectionConfig): boolean {
  if (create) return module === undefined
  const { secureContext, ...options } = Object(ssl)
  return (
    stream !== undefined ||
    secureContext !== undefined ||
    Object.values(options).some((value) => typeof value === 'function')
  )
}
