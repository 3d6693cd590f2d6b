import { LockstepError } from '../../errors.ts'

type Query = (...values: unknown[]) => unknown

/** What begins or ends a transaction, unlike what handles its savepoints. */
const ENDS_TRANSACTION =
  /^(?:\s|--[^\n]*\n|\/\*.*?\*\/)*(?:begin|start\s+transaction|commit|end|abort|rollback(?!\s+(?:work\s+|transaction\s+)?to\b)|prepare\s+transaction)\b/is

/** Of a text, or of an object that has one, as `pg` takes them. */
export function endsTransaction(query: unknown): boolean {
  const text = typeof query === 'string' ? query : (query as { text?: unknown } | null | undefined)?.text
  return typeof text === 'string' && ENDS_TRANSACTION.test(text)
}

/** What begins or ends a transaction is refused that is lent to a handler. */
export function kept(): LockstepError {
  return new LockstepError(
    'LOCKSTEP_TRANSACTION_LENT',
    '`context.tx` is lent to the handler: leave its BEGIN, COMMIT and ROLLBACK, release() and end() to the worker, and use a savepoint for a part that may be rolled back',
  )
}

/** Reports the error as the driver would: to the callback, if there is one. */
export function refuse(values: readonly unknown[], error: LockstepError): Promise<never> | undefined {
  const callback = values.at(-1)
  if (typeof callback !== 'function') return Promise.reject(error)
  process.nextTick(callback as (error: Error) => void, error)
  return undefined
}

/**
 * Has a library's own `pg` client refuse what begins or ends a transaction, until the function that it returns is called: then the
 * library itself commits. Nothing is committed early by a handler that sends COMMIT as text.
 */
export function keepTransaction(client: object): () => void {
  const lent = client as { query: Query }
  const own = Object.getOwnPropertyDescriptor(lent, 'query')
  const { query } = lent
  lent.query = (...values) =>
    endsTransaction(values[0]) ? refuse(values, kept()) : query.apply(client, values)
  let isKept = true
  return () => {
    // By then, the client may be in another transaction, and kept for that.
    if (!isKept) return
    isKept = false
    if (own) Object.defineProperty(lent, 'query', own)
    else Reflect.deleteProperty(lent, 'query')
  }
}
