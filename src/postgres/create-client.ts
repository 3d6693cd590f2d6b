import type pg from 'pg'
import { OptionError } from '../errors.ts'
import { nameOf } from '../options.ts'
import { type ConnectionConfig, called } from './client.ts'
import { connectionConfig } from './connection.ts'

/** What a worker uses a connection for. */
export interface ClientPurpose {
  /** Whether it must not lead through a pooler: it is for locks, lease or wake-ups. */
  readonly direct: boolean
}

/** What a worker calls on a client: one of `pg`, or of a class that extends it. */
export interface CreatedClient {
  connect(): Promise<unknown>
  end(): Promise<unknown>
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  on(event: 'error' | 'end', listener: (error: Error) => void): unknown
}

/**
 * Returns a new client that is not connected yet, or a promise of it. Pass on `options`, as in
 * `new Client({ ...options, host })`: they have the time-outs in ms that a worker needs (`connectionTimeoutMillis`,
 * `query_timeout`), keepalives and an `application_name`.
 */
export type CreateClient = (
  options: pg.ClientConfig,
  purpose: ClientPurpose,
) => CreatedClient | Promise<CreatedClient>

/** @throws OptionError unless it is a function, or the URL of a module. */
export function checkCreateClient(given: CreateClient | URL): CreateClient | URL {
  if (typeof given === 'function' || given instanceof URL) return given
  const told = typeof given === 'string' ? 'a text' : nameOf(given)
  throw new OptionError(
    `Lockstep: createClient must be a function that returns a client, or the URL of a module whose default export is one, not ${told}`,
  )
}

/** The config of connections whose clients the application creates. */
export function createdConfig(
  given: CreateClient | URL,
  purpose: ClientPurpose,
  applicationName: string,
): ConnectionConfig {
  const config = connectionConfig(undefined, applicationName)
  if (typeof given === 'function') return { ...config, create: (options) => given(options, purpose) }
  return fromModule({ ...config, module: given.href }, purpose)
}

/** Adds what the module exports to a config that names one. A thread calls it, too. */
export function fromModule(config: ConnectionConfig, purpose: ClientPurpose): ConnectionConfig {
  const { module } = config
  if (module === undefined) return config
  return { ...config, create: async (options) => (await load(module))(options, purpose) }
}

async function load(module: string): Promise<CreateClient> {
  const exported = (await called(() => import(module), 'loading the module of `createClient`')).default
  if (typeof exported === 'function') return exported
  throw new OptionError(
    'Lockstep: the module of createClient must have a default export: a function that returns a client',
  )
}
