import { nameOf } from '../options.ts'
import type { Text } from '../store/through.ts'
import { type Adapter, BEGIN_READ_WRITE, isFunction, type Members, rowsOf } from './adapter.ts'

/**
 * Private state of a `pg` client of any 8.x. If a field is missing or different, the server's check has to do.
 */
interface ClientState {
  readonly _connected?: unknown
  readonly _connecting?: unknown
  readonly _connectionError?: unknown
  readonly _ending?: unknown
  readonly _activeQuery?: unknown
  readonly _queryQueue?: unknown
  readonly _sentQueryQueue?: unknown
  readonly readyForQuery?: unknown
  getTransactionStatus?(): unknown
  listeners?(event: string): unknown
}

interface Client {
  query(text: string, values: readonly Text[]): Promise<unknown>
}

export const recognizeClient: Adapter = (tx) => {
  if (isPool(tx))
    return 'is a pg Pool, which runs each statement in a transaction of its own: pass the client that BEGIN was sent to, from pool.connect()'
  const { query, _connected, _queryQueue, getTransactionStatus } = tx as Members
  if (!isFunction(query) || (_connected ?? _queryQueue ?? getTransactionStatus) === undefined)
    return undefined
  const problem = problemOfClient(tx)
  if (problem) return `is a pg client that ${problem}`
  return {
    given: nameOf(tx),
    writable: BEGIN_READ_WRITE,
    place: placeOf(tx),
    client: tx,
    casts: 'none',
    run: (text, values) => onClient(tx, text, values),
  }
}

/** Runs a statement on the `pg` client of some library's transaction. */
export async function onClient(
  client: object,
  text: string,
  values: readonly Text[],
): Promise<readonly unknown[]> {
  return rowsOf(await (client as Client).query(text, [...values]))
}

export function isPool(tx: object): boolean {
  return 'totalCount' in tx && 'connect' in tx
}

/** Reads the fields of a `pg` client. */
function placeOf(tx: object): string | undefined {
  const { database, host, port } = tx as Members
  return typeof database === 'string' ? `"${database}" on ${host}:${port}` : undefined
}

/**
 * Why a `pg` client can't be in a transaction, according to its own state: sends nothing. Undefined for any other object,
 * and if the state does not show it.
 */
function problemOfClient(tx: object): string | undefined {
  const state = tx as ClientState
  // A client that never connects would never answer.
  if (state._connected === false && (state._connecting === false || state._connectionError === true))
    return 'is not connected: await its connect() first, and its BEGIN'
  if (state._ending === true) return 'has been ended: pass one that is connected and has sent BEGIN'
  if (isIdleInPool(state))
    return 'was released to its pool, which may lend it to others: release it after COMMIT'
  if (isIdle(state) && state.getTransactionStatus?.() === 'I')
    return 'is in no transaction: none was begun, or it has ended; send BEGIN on it before, and COMMIT after'
  return undefined
}

/** A pool listens for errors of its idle clients. */
function isIdleInPool(state: ClientState): boolean {
  if (typeof state.listeners !== 'function') return false
  const listeners = state.listeners('error')
  return Array.isArray(listeners) && listeners.some(({ name }) => name === 'idleListener')
}

/**
 * Whether no statement is under way. A client learns its status at the end of each statement, so a BEGIN that was not
 * awaited has not changed it yet.
 */
function isIdle({ readyForQuery, _activeQuery, _queryQueue, _sentQueryQueue = [] }: ClientState): boolean {
  return readyForQuery === true && !_activeQuery && isEmpty(_queryQueue) && isEmpty(_sentQueryQueue)
}

function isEmpty(queue: unknown): boolean {
  return Array.isArray(queue) && queue.length === 0
}
