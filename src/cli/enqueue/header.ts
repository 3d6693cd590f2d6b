import { DataError, UsageError } from '../failure.ts'
import { quote, suggestion } from '../suggest.ts'
import { type Columns, missingColumn } from './row.ts'

/** By delimiter: how to write it on the command line. */
const DELIMITERS: Readonly<Record<string, string>> = { ';': "';'", '\t': "'\\t'", '|': "'|'", ',': ',' }

/** @throws UsageError if a column is missing, DataError if one occurs twice */
export function checkHeader(header: readonly string[], columns: Columns, delimiter: string): void {
  const missing = missingColumn(columns, header)
  if (missing !== undefined) throw new UsageError(whatToDo(header, missing, delimiter))
  const twice = header.find((name, index) => header.indexOf(name) !== index)
  if (twice === undefined) return
  throw new DataError(
    `the header names ${quote(twice)} twice, so one would replace the other: rename one of them`,
  )
}

/** Ends a message about a misplaced character; empty unless the character is a usual delimiter. */
export function delimiterHint(character: string): string {
  const given = DELIMITERS[character]
  return given === undefined ? '' : `; if that separates the fields, give --delimiter ${given}`
}

function whatToDo(header: readonly string[], missing: string, delimiter: string): string {
  const problem = `the file has no column ${quote(missing)}`
  const line = header.join(delimiter)
  const others = Object.keys(DELIMITERS).filter((other) => other !== delimiter && line.includes(other))
  const right = others.find((other) => line.split(other).includes(missing))
  if (right !== undefined) return `${problem}, but it has one with --delimiter ${DELIMITERS[right]}`
  const [likely] = header.length === 1 ? others : []
  if (likely === undefined) return `${problem}; ${suggestion(missing, header)}`
  return `${problem}; with --delimiter ${DELIMITERS[likely]}, ${suggestion(missing, line.split(likely))}`
}
