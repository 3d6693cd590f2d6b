import type { Database } from '../postgres/database.ts'
import { toStatementError } from '../postgres/failure.ts'

/** A value that drivers of every kind pass on unchanged. */
export type Text = string | null

/**
 * Which parameters a statement must cast from text, since the driver would make something else of them: none, JSON, which some
 * encode once more, or all. Nine casts in a statement take 57 of 330 µs that a push in a transaction of its own takes.
 */
export type Casts = 'none' | 'json' | 'all'

/** The caller's transaction, behind whatever driver. */
export interface Through {
  readonly casts: Casts
  /** Sends a statement with parameters $1, $2 …; resolves to its rows, if the driver returns any. */
  run(text: string, values: readonly Text[]): Promise<readonly unknown[]>
}

/**
 * A function or procedure of the schema, and the types of its parameters, as pg_catalog has them: an application's search_path
 * may lead to others first. A function's result comes as text.
 */
export interface Callable {
  readonly verb: 'CALL' | 'SELECT'
  readonly name: string
  readonly types: readonly string[]
}

const texts = new Map<string, string>()

/**
 * Calls it through the caller's driver. Parameters are texts, since drivers differ in what they make of numbers, arrays and
 * JSON.
 */
export async function callThrough(
  { prefix }: Database,
  on: Through,
  callable: Callable,
  values: readonly unknown[],
): Promise<readonly unknown[]> {
  return runThrough(on, textOf(prefix, callable, on.casts), values.map(toText))
}

/** Runs a statement through the caller's driver. */
export async function runThrough(
  on: Through,
  text: string,
  values: readonly Text[] = [],
): Promise<readonly unknown[]> {
  try {
    return await on.run(text, values)
  } catch (error) {
    throw toStatementError(error)
  }
}

/** The only value of the only row, under whatever name the driver gives it. */
export function onlyValue([row]: readonly unknown[]): unknown {
  return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined
}

function textOf(prefix: string, { verb, name, types }: Callable, casts: Casts): string {
  const callee = `${prefix}.${name}`
  const key = `${callee} ${casts}`
  let text = texts.get(key)
  if (text === undefined) {
    const places = types.map((type, index) => placeOf(index, type, casts))
    const call = `${callee}(${places.join(', ')})`
    text = verb === 'CALL' ? `CALL ${call}` : `SELECT ${call}::pg_catalog.text`
    texts.set(key, text)
  }
  return text
}

function placeOf(index: number, type: string, casts: Casts): string {
  const isCast = casts === 'all' || (casts === 'json' && type === 'jsonb')
  return `$${index + 1}${isCast ? `::pg_catalog.text::pg_catalog.${type}` : ''}`
}

function toText(value: unknown): Text {
  if (value === null || value === undefined) return null
  return Array.isArray(value) ? `{${value.map(toElement).join(',')}}` : String(value)
}

/** Of an array literal: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO */
function toElement(value: unknown): string {
  if (value === null) return 'NULL'
  return typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : String(value)
}
