import { requireSize } from '../../enqueue/validation.ts'
import { JobError, type PayloadHeaders } from '../../index.ts'
import type { PushedJob } from '../../store/push.ts'
import { excerpt } from '../output.ts'
import { compact, hasNumbersToKeep, memberOf, numberBeyondJsonb } from './json-text.ts'
import type { Row } from './row.ts'

export interface Payload {
  readonly value: unknown
  /** Its JSON text, if that has digits which the value lacks. */
  readonly written?: string
}

/** The value in the column, or the whole row. */
export function payloadOf({ values, json }: Row, column: string | undefined): Payload {
  if (column !== undefined && json === undefined) return ofText(values[column] as string)
  const value = column === undefined ? values : values[column]
  if (json === undefined || !hasNumbersToKeep(json)) return { value }
  return { value, written: column === undefined ? compact(json) : memberOf(json, column) }
}

/** The value in the column; an empty field means none. The job's check refuses what is no object. */
export function headersOf({ values, json }: Row, column: string | undefined): PayloadHeaders | undefined {
  const value = column === undefined ? undefined : values[column]
  if (value === '' || value === undefined) return undefined
  return (json === undefined ? ofText(value as string).value : value) as PayloadHeaders
}

/** CSV holds only text: what looks like a JSON object or array becomes one, anything else stays text. */
function ofText(text: string): Payload {
  if (!/^\s*[[{]/.test(text)) return { value: text }
  try {
    const value: unknown = JSON.parse(text)
    return hasNumbersToKeep(text) ? { value, written: compact(text) } : { value }
  } catch {
    return { value: text }
  }
}

/**
 * Gives the job its payload as written: JavaScript would change digits, and drop one of two payloads that differ (R2).
 * @throws JobError for a payload that the server would refuse without naming the job
 */
export function withDigits(job: PushedJob, index: number, written: string | undefined): PushedJob {
  if (written === undefined) return job
  requireSize(written, index)
  const number = numberBeyondJsonb(written)
  if (number === undefined) return { ...job, payload: written }
  throw new JobError(
    index,
    'payload',
    `has the number ${excerpt(number, 40)}, which Postgres’ jsonb can’t hold: quote it, to make it text`,
  )
}
