import { extname } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { UsageError } from '../failure.ts'
import { quote } from '../suggest.ts'
import { csvRows } from './csv.ts'
import { ndjsonRows } from './ndjson.ts'
import type { Columns, Row } from './row.ts'
import type { Source } from './source.ts'

/** The flags that name the file and its format. */
export interface InputFlags {
  readonly csv?: string | true
  readonly ndjson?: string | true
  readonly delimiter: string
}

export interface Input {
  readonly file: string
  rows(source: Source, columns: Columns): AsyncGenerator<Row>
}

/** @throws UsageError if several files or formats are named, or the format is unknown */
export function inputOf(file: string | undefined, { csv, ndjson, delimiter }: InputFlags): Input {
  if (csv && ndjson) throw new UsageError('--csv and --ndjson exclude each other')
  const named = [file, csv, ndjson].filter((one) => typeof one === 'string')
  if (named.length > 1) throw new UsageError(`name one file, not ${named.map(quote).join(' and ')}`)
  const [name = '-'] = named
  const isCsv = Boolean(csv) || (!ndjson && looksLikeCsv(name))
  const separator = delimiter === ',' && extensionOf(name) === '.tsv' ? '\t' : delimiter
  return {
    file: name,
    rows: (source, columns) => (isCsv ? csvRows(source, columns, separator) : ndjsonRows(source, columns)),
  }
}

function looksLikeCsv(file: string): boolean {
  const extension = extensionOf(file)
  if (['.csv', '.tsv'].includes(extension)) return true
  if (['.ndjson', '.jsonl'].includes(extension)) return false
  throw new UsageError(`say which format ${file === '-' ? 'stdin' : quote(file)} has: --csv or --ndjson`)
}

/** Ignores a trailing `.gz`. */
function extensionOf(file: string): string {
  return extname(file.replace(/\.gz$/i, '')).toLowerCase()
}

/** For --delimiter. */
export function delimiterOption(text: string): string {
  const meant = text === '\\t' ? '\t' : text
  if ([...meant].length === 1 && !/["\r\n]/.test(meant)) return meant
  throw new InvalidArgumentError('It must be one character, or \\t.')
}
