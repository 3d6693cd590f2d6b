import { DataError } from '../failure.ts'
import { excerpt } from '../output.ts'
import { quote, suggestion } from '../suggest.ts'
import { type Columns, missingColumn, type Row } from './row.ts'
import type { Source } from './source.ts'

const MAX_LINE = 64 * 1024 * 1024

/** The rows of a file with a JSON object on each line. */
export async function* ndjsonRows(source: Source, columns: Columns): AsyncGenerator<Row> {
  const required = { id: columns.id, score: columns.score, payload: columns.payload }
  let [line, bytes] = [0, 0]
  for await (const text of linesOf(source)) {
    line += 1
    bytes += Buffer.byteLength(text) + 1
    if (text.trim() === '') continue
    const values = parse(text, line)
    const missing = missingColumn(required, Object.keys(values))
    if (missing !== undefined)
      throw new DataError(
        `line ${line} has no column ${quote(missing)}; ${suggestion(missing, Object.keys(values))}`,
      )
    yield { line, values, bytes, json: text }
    bytes = 0
  }
}

function parse(text: string, line: number): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new DataError(`line ${line} is not JSON: ${excerpt((error as Error).message, 200)}`)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new DataError(`line ${line} is not a JSON object: ${excerpt(text, 60)}`)
}

async function* linesOf({ stream }: Source): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8')
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk as Buffer, { stream: true })).split('\n')
    rest = lines.pop()!
    if (rest.length > MAX_LINE)
      throw new DataError('a line is longer than 64 MiB: is this NDJSON, with one object per line?')
    yield* lines
  }
  if (rest !== '') yield rest
}
