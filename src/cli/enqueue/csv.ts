import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'
import { DataError, UsageError } from '../failure.ts'
import { checkHeader, delimiterHint } from './header.ts'
import type { Columns, Row } from './row.ts'
import type { Source } from './source.ts'

/** Bytes. An unclosed quote must not swallow the rest of a large file. */
const MAX_RECORD = 64 * 1024 * 1024

/**
 * The rows of a CSV file with a header.
 * @throws UsageError if a non-empty file has no header, or the header lacks a column
 */
export async function* csvRows(source: Source, columns: Columns, delimiter: string): AsyncGenerator<Row> {
  let header: string[] | undefined
  const parser = parse({
    bom: true,
    columns: (names: string[]) => {
      header = names
      checkHeader(names, columns, delimiter)
      return names
    },
    delimiter,
    info: true,
    max_record_size: MAX_RECORD,
    record_delimiter: ['\r\n', '\n', '\r'],
    skip_empty_lines: true,
  })
  pipeline(source.stream, parser, () => {})
  const lines = new LineCounter()
  let before = 0
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      yield { line: lines.begin(record, info), values: record, bytes: info.bytes - before }
      before = info.bytes
    }
  } catch (error) {
    throw error instanceof CsvError ? unreadable(source.name, error) : error
  }
  if (!header && source.read > 0) throw new UsageError(`${source.name} has no header, only empty lines`)
}

function unreadable(name: string, error: CsvError): DataError {
  const [, character] = /got "(.)"/s.exec(error.message) ?? []
  const hint = character === undefined ? '' : delimiterHint(character)
  return new DataError(`${name}: ${error.message}${hint}`, { cause: error })
}

interface Parsed {
  readonly record: Record<string, string>
  readonly info: Info
}

/** csv-parse reports the line where a record ends, and counts a \r\n inside quotes as two lines. */
class LineCounter {
  #last = 1
  #excess = 0

  begin(record: Record<string, string>, { lines }: Info): number {
    const counted = lines - this.#last
    this.#last = lines
    if (counted <= 1) return lines - this.#excess
    const text = Object.values(record).join('')
    const windows = text.split('\r\n').length - 1
    this.#excess += windows
    return lines - this.#excess - (text.split(/\r\n|\n|\r/).length - 1)
  }
}
