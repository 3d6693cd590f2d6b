import type { Through } from '../store/through.ts'

/** How messages speak of a library's transactions. */
export interface Wording {
  /** Names one, such as `a Knex transaction`. */
  readonly given: string
  /** What `tx` is if it has ended, and what to pass instead. Undefined for what is not of a library. */
  readonly ended?: string | undefined
  /** How to begin one that may write. */
  readonly writable: string
}

/** A transaction that the application has begun, through whichever library it uses. */
export interface OpenTransaction extends Through, Wording {
  /** The database it is connected to, if known. */
  readonly place?: string | undefined
  /** Its `pg` client, if the library has one and shows it. */
  readonly client?: object | undefined
  /** The same, if it takes a moment. */
  connection?(): Promise<object>
}

/**
 * Recognizes the transactions of one library by their structure, so that the library itself need not be loaded. Returns a
 * string if `tx` is of the library but can't be pushed in: why, and what to pass instead. Undefined if it is of another.
 */
export type Adapter = (tx: object) => OpenTransaction | string | undefined

/** For what sends its BEGIN itself. */
export const BEGIN_READ_WRITE = 'begin its transaction with BEGIN READ WRITE'

/** For a library without an option for that. */
export const SET_FIRST =
  'where default_transaction_read_only is on, let its first statement be SET TRANSACTION READ WRITE'

/** Of a library that hands its transactions to callbacks. `advice`: what to pass. */
export function wordingOf(
  given: string,
  advice: string,
  writable: string,
): Wording & { readonly ended: string } {
  const ended = `is ${given} that has ended: ${advice}, and await the call inside the callback`
  return { given, ended, writable }
}

/**
 * A transaction that has another inside: that of the first adapter which recognizes it, in the words of the outer. Users can
 * reach only the outer, so what is wrong with the inner means that the outer has ended.
 */
export function openInside(
  wording: Wording,
  inside: object,
  adapters: readonly Adapter[],
): ReturnType<Adapter> {
  for (const adapter of adapters) {
    const found = adapter(inside)
    if (typeof found === 'string') return wording.ended
    if (found) return { ...found, ...wording }
  }
  return undefined
}

/** The members of a value, whose types its library may have changed. */
export type Members = Readonly<Record<string, unknown>>

export function isFunction(value: unknown): value is (...given: unknown[]) => unknown {
  return typeof value === 'function'
}

/**
 * What a library says of a transaction that has ended, under the code that the server has for a session without one
 * (sql/2-push/require_transaction.sql).
 */
export function endedTransaction(cause: Error): Error {
  return Object.assign(new Error(cause.message, { cause }), { code: 'LK004' })
}

/** The rows of a result as `pg` returns it, or as a list. */
export function rowsOf(result: unknown): readonly unknown[] {
  const rows = Array.isArray(result) ? result : (result as { rows?: unknown } | null | undefined)?.rows
  return Array.isArray(rows) ? rows : []
}
