import { requireSize } from '../../enqueue/validation.ts'
import { JobError } from '../../index.ts'
import type { PushedJob } from '../../store/push.ts'
import { excerpt } from '../output.ts'
import { compact, hasNumbersToKeep, memberOf, numberBeyondJsonb } from './json-text.ts'
import type { Row } from './row.ts'

export interface Payload {
  readonly value: unknown
  /** Its JSON text, where that says more than the value does. */
  readonly written?: string
}

/** Of a row: what stands in the column, or the whole of it. */
export function payloadOf({ values, json }: Row, column: string | undefined): Payload {
  if (column !== undefined && json === undefined) return ofText(values[column] as string)
  const value = column === undefined ? values : values[column]
  if (json === undefined || !hasNumbersToKeep(json)) return { value }
  return { value, written: column === undefined ? compact(json) : memberOf(json, column) }
}

/** CSV knows text alone: what looks like a JSON object or array becomes one, anything else stays as it is. */
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
 * The job with the payload as it was written: JavaScript would change digits, and of two that differ drop one (R2).
 * @throws JobError for what the server would refuse without naming the job
 */
export function withDigits(job: PushedJob, index: number, written: string | undefined): PushedJob {
  if (written === undefined) return job
  requireSize(written, index)
  const number = numberBeyondJsonb(written)
  if (number === undefined) return { ...job, payload: written }
  throw new JobError(
    index,
    'payload',
    `has the number ${excerpt(number, 40)}, which Postgres’ jsonb has no room for: quote it, so that it is text`,
  )
}
