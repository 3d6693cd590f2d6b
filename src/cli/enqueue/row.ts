import { toPushedJob } from '../../enqueue/validation.ts'
import { JobError } from '../../index.ts'
import type { PushedJob } from '../../store/push.ts'
import { DataError } from '../failure.ts'
import { quote } from '../suggest.ts'
import { numberOrMoment } from './moment.ts'
import { headersOf, payloadOf } from './payload.ts'

/** A row of the file, the line it begins on, and its bytes, counted from the end of the row before. */
export interface Row {
  readonly line: number
  readonly bytes: number
  readonly values: Readonly<Record<string, unknown>>
  /** The row as written, if it is JSON. */
  readonly json?: string
}

/** The columns that hold each field. Without a `payload` column, the whole row is the payload. */
export interface Columns {
  readonly id: string
  readonly score?: string
  readonly performIn?: string
  readonly expiresIn?: string
  readonly lane?: string
  readonly tenant?: string
  readonly payload?: string
  readonly headers?: string
}

/** The first column that is missing. */
export function missingColumn(columns: Columns, present: readonly string[]): string | undefined {
  return Object.values(columns).find((column) => column !== undefined && !present.includes(column))
}

/**
 * @param index its place in the call, for errors
 * @throws DataError naming line, column and value, or JobError naming the index
 */
export function jobOf(row: Row, columns: Columns, index: number): PushedJob {
  const job = {
    id: row.values[columns.id] as string,
    payload: payloadOf(row, columns.payload),
    score: columns.score === undefined ? undefined : requireNumber(row, columns.score),
    performIn: optionalNumber(row, columns.performIn),
    expiresIn: optionalNumber(row, columns.expiresIn),
    lane: optionalNumber(row, columns.lane),
    tenant: tenantOf(row, columns.tenant),
    headers: headersOf(row, columns.headers),
  }
  return toPushedJob(job, index)
}

/** A number of a customer, as JSON may have it, is text. The job's check refuses what is neither. */
function tenantOf({ values }: Row, column: string | undefined): string | undefined {
  const value = column === undefined ? undefined : values[column]
  return Number.isSafeInteger(value) ? String(value) : (value as string | undefined)
}

/** An empty field means the default. */
function optionalNumber(row: Row, column: string | undefined): number | undefined {
  const value = column === undefined ? undefined : row.values[column]
  if (value === undefined || value === null || value === '') return undefined
  return requireNumber(row, column!)
}

/** A score has no default: it would silently change the order of an id. */
function requireNumber({ line, values }: Row, column: string): number {
  const value = values[column]
  const number = numberOrMoment(value)
  if (number !== undefined) return number
  const shown = typeof value === 'string' ? quote(value) : JSON.stringify(value)
  throw new DataError(
    `line ${line}, column ${quote(column)}: ${shown} is neither a number (whole numbers up to 2^53) nor a timestamp such as 2011-10-11T13:45:40.276Z`,
  )
}

/** Translates index and field, which the queue's own checks name, into line and column. */
export function inTermsOfTheFile(error: unknown, rows: readonly Row[], columns: Columns): unknown {
  if (!(error instanceof JobError)) return error
  const { line = 0 } = rows[error.index] ?? {}
  const column = columns[error.field as keyof Columns]
  const place = column === undefined ? `line ${line}` : `line ${line}, column ${quote(column)}`
  const problem = error.message.replace(/^jobs\[\d+\]\./, '')
  return new DataError(`${place}: ${problem}`, { cause: error })
}
