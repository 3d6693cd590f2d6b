import type { MessagePort } from 'node:worker_threads'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { connect, disconnect } from '../../postgres/connection.ts'
import type { Queryable } from '../../postgres/database.ts'
import { MainThread } from './main-thread.ts'

/** The session in which a thread renews the lease. */
export interface LeaseSession extends Queryable {
  /** Calls `tell` when it breaks. */
  onLost(tell: () => void): void
  close(): Promise<void>
}

export interface SessionLimits {
  /** ms that connecting, and each statement, may take. */
  readonly limit: number
  /** How long it may idle, as a SET. */
  readonly setting: string
}

export type OpenSession = (limits: SessionLimits) => Promise<LeaseSession>

/** How the lease thread opens sessions; see ThreadConfig. `port` leads to the main thread, if it is needed. */
export function sessionOpener(
  config: ConnectionConfig,
  needs: 'nothing' | 'password' | 'sessions',
  port: MessagePort | undefined,
): OpenSession {
  if (!port || needs === 'nothing') return (limits) => ownSession(config, limits)
  const main = new MainThread(port)
  if (needs === 'sessions') return (limits) => main.session(limits)
  return (limits) => ownSession({ ...config, password: () => main.password(limits.limit) }, limits)
}

async function ownSession(
  config: ConnectionConfig,
  { limit, setting }: SessionLimits,
): Promise<LeaseSession> {
  const client = await connect({ ...config, connectionTimeoutMillis: limit, query_timeout: limit }, setting)
  return {
    query: (text, values) => client.query(text, values),
    onLost: (tell) => void client.on('error', tell).on('end', tell),
    close: () => disconnect(client),
  }
}
