import pg from 'pg'
import { DatabaseError, OptionError } from '../errors.ts'
import { nameOf } from '../options.ts'
import { READS_TEXT } from './binary.ts'

/** The options of `pg.Client` to reach a database, or what creates its clients. */
export interface ConnectionConfig extends pg.ClientConfig {
  /** Creates each client, instead of our driver. It gets the other options. */
  create?(options: pg.ClientConfig): unknown
  /** The address of the module whose function `create` is: a thread can load it too. */
  readonly module?: string | undefined
}

/** Clients that were created before. */
const created = new WeakSet<object>()

/**
 * A client that is not connected yet.
 * @throws OptionError if `create` returns anything else; DatabaseError `LOCKSTEP_CONNECTION` if it throws
 */
export async function newClient({ create, module, ...options }: ConnectionConfig): Promise<pg.Client> {
  if (!create) return new pg.Client(options)
  const { query_timeout, connectionTimeoutMillis } = options
  const creating = called(() => create(options), '`createClient`')
  let late = false
  void creating.then(
    (made) => late && discard(made),
    () => {},
  )
  const made = await inTime(creating, connectionTimeoutMillis).catch((error) => {
    late = true
    throw error
  })
  const client = checkClient(made)
  created.add(client)
  // Calls on a connection that has gone silent have to end, whatever options the function passes on.
  if (query_timeout !== undefined) Object.assign(Object(client.connectionParameters), { query_timeout })
  return client
}

/**
 * What a function of the application's returns.
 * @throws DatabaseError `LOCKSTEP_CONNECTION` if it throws: it may succeed later, like a login
 */
export async function called<T>(work: () => T, what: string): Promise<Awaited<T>> {
  try {
    return await work()
  } catch (cause) {
    if (cause instanceof OptionError) throw cause
    const told = cause instanceof Error ? cause.message : 'it threw no Error'
    throw new DatabaseError('LOCKSTEP_CONNECTION', `${what} failed, so there is no connection: ${told}`, {
      cause,
    })
  }
}

/** A function or a client of the application's may know no time-out, in ms, of its own. */
export async function inTime<T>(work: Promise<T>, limit: number | undefined): Promise<T> {
  if (limit === undefined) return work
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('timeout expired')), limit)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** The password for a connection of this config, as `pg` asks for it. */
export async function passwordOf(config: ConnectionConfig): Promise<unknown> {
  const { password } = config
  if (typeof password !== 'function') return password
  const { connectionParameters } = new pg.Client(config) as Created
  return (password as (place: unknown) => unknown)(connectionParameters)
}

type Created = pg.Client & { readonly connectionParameters?: object }

interface State {
  readonly _connected?: unknown
  readonly _connecting?: unknown
  readonly binary?: unknown
}

/** Names a class, never what is in it: that may be a password. */
function checkClient(value: unknown): Created {
  const problem = problemOf(value)
  if (problem === undefined) return value as Created
  discard(value)
  throw new OptionError(
    `Lockstep: createClient must return a new client of \`pg\`, or of a class that extends it, before its connect(): ${problem}`,
  )
}

/**
 * Ends a client that is not used, since nobody else will: its session would stay, one more at each try. A pool stays, and a
 * client that is in use already.
 */
function discard(value: unknown): void {
  if (typeof value !== 'object' || value === null || 'totalCount' in value || created.has(value)) return
  const { release, end } = value as { readonly release?: unknown; readonly end?: unknown }
  const give =
    typeof release === 'function'
      ? () => release.call(value, true)
      : isFunction(end) && (() => end.call(value))
  if (give)
    Promise.resolve()
      .then(give)
      .catch(() => {})
}

function problemOf(value: unknown): string | undefined {
  if (typeof value === 'string') return 'it returned a text'
  if (typeof value !== 'object' || value === null) return `it returned ${nameOf(value)}`
  if ('totalCount' in value) return 'it returned a pool'
  if (created.has(value)) return 'it returned the same one twice'
  const missing = ['connect', 'query', 'end', 'on'].find((name) => !isFunction(Reflect.get(value, name)))
  if (missing) return `it returned ${nameOf(value)}, which has no ${missing}()`
  if (!('processID' in value))
    return `it returned ${nameOf(value)}, which does not tell the \`processID\` of its session, as pg-native does not`
  const { _connected, _connecting, binary } = value as State
  if (_connected === true || _connecting === true || typeof value.processID === 'number')
    return 'it returned one that is connected'
  if (binary === true) return `it returned one with \`binary: true\`, but ${READS_TEXT}`
  return undefined
}

function isFunction(value: unknown): value is (...given: unknown[]) => unknown {
  return typeof value === 'function'
}
