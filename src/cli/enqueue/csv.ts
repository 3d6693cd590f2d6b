import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'
import { DataError } from '../failure.ts'
import { quote } from '../suggest.ts'
import { type Columns, type Row, requireColumns } from './row.ts'
import type { Source } from './source.ts'

/** A quote that is never closed must not swallow the rest of a large file. */
const MAX_RECORD = 64 * 1024 * 1024

/** The rows of a CSV file with a header. */
export async function* csvRows(source: Source, columns: Columns, delimiter: string): AsyncGenerator<Row> {
  const parser = parse({
    bom: true,
    columns: (header: string[]) => checkHeader(header, columns),
    delimiter,
    info: true,
    max_record_size: MAX_RECORD,
    record_delimiter: ['\r\n', '\n', '\r'],
    skip_empty_lines: true,
  })
  pipeline(source.stream, parser, () => {})
  const lines = new LineCounter()
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      yield { line: lines.begin(record, info), values: record }
    }
  } catch (error) {
    throw error instanceof CsvError
      ? new DataError(`${source.name}: ${error.message}`, { cause: error })
      : error
  }
}

interface Parsed {
  readonly record: Record<string, string>
  readonly info: Info
}

function checkHeader(header: string[], columns: Columns): string[] {
  requireColumns(columns, header, 'the file')
  const twice = header.find((name, index) => header.indexOf(name) !== index)
  if (twice === undefined) return header
  throw new DataError(`the header names ${quote(twice)} twice, and one would replace the other: rename one`)
}

/** csv-parse tells where a record ends, and counts a line break inside quotes twice when it is \r\n. */
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
