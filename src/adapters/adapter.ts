import type { Through } from '../store/through.ts'

/** A transaction that the application has begun, through whichever library it uses. */
export interface OpenTransaction extends Through {
  /** Names it in messages, such as `a Knex transaction`. */
  readonly given: string
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

/**
 * A transaction that has another inside: that of the first adapter which recognizes it, under the name `given`. `part` says
 * what the other is to it.
 */
export function openInside(
  given: string,
  part: 'client' | 'transaction',
  inside: object,
  adapters: readonly Adapter[],
): ReturnType<Adapter> {
  for (const adapter of adapters) {
    const found = adapter(inside)
    if (typeof found === 'string') return `is ${given} whose ${part} ${found}`
    if (found) return { ...found, given }
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
