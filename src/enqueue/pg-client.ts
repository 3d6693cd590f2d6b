/**
 * What a `pg` client of any 8.x keeps to itself, where it does: what is missing or different is left to the server.
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

const ADVICE = 'BEGIN on it, enqueue, then COMMIT'

/**
 * What keeps a `pg` client from being in a transaction, by its own account: nothing is sent. Undefined for any other
 * object, and where it doesn't know.
 */
export function problemOfClient(tx: object): string | undefined {
  const state = tx as ClientState
  // What is asked of one that never will be would wait for ever.
  if (state._connected === false && (state._connecting === false || state._connectionError === true))
    return `is not connected: await its connect() first, then ${ADVICE}`
  if (state._ending === true) return `has been ended: pass one that is connected; ${ADVICE}`
  if (isIdleInPool(state))
    return `was released to its pool, which may lend it to others: ${ADVICE} before release()`
  if (isIdle(state) && state.getTransactionStatus?.() === 'I')
    return `is in no transaction: none was begun, or it has ended; ${ADVICE}, or leave \`tx\` out to push without`
  return undefined
}

/** A pool listens for errors of the clients it has not lent out. */
function isIdleInPool(state: ClientState): boolean {
  if (typeof state.listeners !== 'function') return false
  const listeners = state.listeners('error')
  return Array.isArray(listeners) && listeners.some(({ name }) => name === 'idleListener')
}

/**
 * Whether nothing is under way: a client learns its status at the end of each statement, so a BEGIN that was not
 * awaited hasn't changed it yet.
 */
function isIdle({ readyForQuery, _activeQuery, _queryQueue, _sentQueryQueue = [] }: ClientState): boolean {
  return readyForQuery === true && !_activeQuery && isEmpty(_queryQueue) && isEmpty(_sentQueryQueue)
}

function isEmpty(queue: unknown): boolean {
  return Array.isArray(queue) && queue.length === 0
}
