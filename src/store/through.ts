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
 * A procedure of the schema, or a function that returns a value or rows, and the types of its parameters, as pg_catalog has
 * them: an application's search_path may lead to others first. A value comes as text.
 */
export interface Callable {
  readonly kind: 'procedure' | 'value' | 'rows'
  readonly name: string
  readonly types: readonly string[]
}

/** Settings of the server, by name. */
export type Settings = Readonly<Record<string, string>>

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

/**
 * The same for a function that returns rows, in the transaction of a round; elsewhere it's not called, and this resolves to
 * undefined: a library may go on in another session. The rows come as JSON, since drivers differ in what they make of columns.
 * `after`: settings to make afterwards, until the transaction ends.
 */
export async function rowsThrough<Row>(
  { prefix }: Database,
  on: Through,
  callable: Callable,
  values: readonly unknown[],
  round: string,
  after: Settings = {},
): Promise<Row[] | undefined> {
  const settings = Object.entries(after)
  const made = settings.map(([name], index) => {
    const place = placeOf(values.length + index, 'text', on.casts)
    return `, pg_catalog.set_config('${name}', ${place}, true)`
  })
  const rows = textOf(prefix, callable, on.casts)
  const isOurs = `pg_catalog.current_setting('lockstep.round', true) = ${placeOf(values.length + settings.length, 'text', on.casts)}`
  // Only what is materialized is sure to come before the settings.
  const text = `WITH answer AS MATERIALIZED (SELECT CASE WHEN ${isOurs} THEN (${rows}) END AS rows)
    SELECT rows${made.join('')} FROM answer`
  const given = [...values.map(toText), ...settings.map(([, value]) => value), round]
  const answer = firstValue(await runThrough(on, text, given))
  return typeof answer === 'string' ? JSON.parse(answer) : undefined
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

/** The first value of the only row, under whatever name the driver gives it. */
export function firstValue([row]: readonly unknown[]): unknown {
  return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined
}

function textOf(prefix: string, { kind, name, types }: Callable, casts: Casts): string {
  const callee = `${prefix}.${name}`
  const key = `${callee} ${casts}`
  let text = texts.get(key)
  if (text === undefined) {
    const places = types.map((type, index) => placeOf(index, type, casts))
    const call = `${callee}(${places.join(', ')})`
    text = TEXTS[kind](call)
    texts.set(key, text)
  }
  return text
}

const TEXTS: Readonly<Record<Callable['kind'], (call: string) => string>> = {
  procedure: (call) => `CALL ${call}`,
  value: (call) => `SELECT ${call}::pg_catalog.text`,
  rows: (call) => `SELECT coalesce(pg_catalog.json_agg(r), '[]')::pg_catalog.text AS rows FROM ${call} AS r`,
}

function placeOf(index: number, type: string, casts: Casts): string {
  const isCast = casts === 'all' || (casts === 'json' && type === 'jsonb')
  return `$${index + 1}${isCast ? `::pg_catalog.text::pg_catalog.${type}` : ''}`
}

/** As the server reads it, like a parameter: arrays are literals of theirs. */
export function toText(value: unknown): Text {
  if (value === null || value === undefined) return null
  return Array.isArray(value) ? `{${value.map(toElement).join(',')}}` : String(value)
}

/** Of an array literal: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO */
function toElement(value: unknown): string {
  if (value === null) return 'NULL'
  return typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : String(value)
}
