import { quoteLiteral } from '../postgres/types.ts'
import { type Through, toText } from './through.ts'

/** A statement as `pg` takes it; other fields don't matter here. */
interface Statement {
  readonly text: string
  readonly values?: readonly unknown[]
  /** `array`: rows are lists of columns. */
  readonly rowMode?: string | undefined
}

const HAS_ROWS = /^\s*(SELECT|WITH)\b|\bRETURNING\b/i

/**
 * Stands in for a `pg` client in a transaction whose library shows none, for statements of our own. Drivers differ in what
 * they make of parameters and columns, and most take one statement at a time. So values become literals, which the server
 * reads as it would parameters of an unknown type, and rows come as JSON.
 */
export class ThroughClient {
  readonly #on: Through

  constructor(on: Through) {
    this.#on = on
  }

  async query(given: string | Statement, values?: readonly unknown[]): Promise<{ rows: unknown[] }> {
    const statement: Statement = typeof given === 'string' ? { text: given, values: values ?? [] } : given
    if (HAS_ROWS.test(statement.text)) return { rows: await this.#rowsOf(statement) }
    for (const text of partsOf(statement)) await this.#on.run(text, [])
    return { rows: [] }
  }

  async #rowsOf({ text, values, rowMode }: Statement): Promise<unknown[]> {
    const answer = await this.#on.run(withRowsAsJson(withLiterals(text, values)), [])
    const rows: object[] = JSON.parse((answer as readonly { rows: string }[])[0]!.rows)
    return rowMode === 'array' ? rows.map((row) => Object.values(row)) : rows
  }
}

/** What a statement defines by WITH stays outside: it may change rows, which it must not do further inside. */
function withRowsAsJson(text: string): string {
  const main = /^\s*WITH\b/i.test(text) ? mainPartOf(text) : 0
  const before = main === 0 ? 'WITH' : `${text.slice(0, main)},`
  return `${before} answer AS (${text.slice(main)})
    SELECT coalesce(pg_catalog.json_agg(answer), '[]')::pg_catalog.text AS rows FROM answer`
}

/** Where the statement itself begins, after its WITH. */
function mainPartOf(text: string): number {
  let depth = 0
  for (const { 0: found, index } of text.matchAll(
    /'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]|\b(?:SELECT|INSERT|UPDATE|DELETE)\b/gi,
  )) {
    if (found === '(') depth += 1
    else if (found === ')') depth -= 1
    else if (depth === 0 && /^[a-z]/i.test(found)) return index
  }
  return 0
}

/** Only statements without values come several in one text. */
function partsOf({ text, values = [] }: Statement): string[] {
  if (values.length > 0) return [withLiterals(text, values)]
  return text.split(';').filter((part) => part.trim() !== '')
}

function withLiterals(text: string, values: readonly unknown[] = []): string {
  return text.replace(/\$(\d+)/g, (_, place) => literalOf(values[Number(place) - 1]))
}

function literalOf(value: unknown): string {
  // The server does not read all that a Date prints.
  if (value instanceof Date) return `pg_catalog.to_timestamp(${value.getTime()} / 1000.0)`
  const text = Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : toText(value)
  return text === null ? 'NULL' : quoteLiteral(text)
}
