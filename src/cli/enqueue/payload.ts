import type { PayloadHeaders } from '../../index.ts'
import { compact, hasNumbersToKeep, JsonText, memberOf } from '../../json-text.ts'
import type { Row } from './row.ts'

/** The value in the column, or the whole row; as written, if JavaScript would change its digits. */
export function payloadOf({ values, json }: Row, column: string | undefined): unknown {
  if (column !== undefined && json === undefined) return ofText(values[column] as string)
  const value = column === undefined ? values : values[column]
  if (json === undefined || value === undefined || !hasNumbersToKeep(json)) return value
  return new JsonText(column === undefined ? compact(json) : memberOf(json, column))
}

/** The value in the column; an empty field means none. The job's check refuses what is no object. */
export function headersOf({ values, json }: Row, column: string | undefined): PayloadHeaders | undefined {
  const value = column === undefined ? undefined : values[column]
  if (value === '' || value === undefined) return undefined
  return (json === undefined ? ofText(value as string) : value) as PayloadHeaders
}

/** CSV holds only text: what looks like a JSON object or array becomes one, anything else stays text. */
function ofText(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text
  try {
    const value: unknown = JSON.parse(text)
    return hasNumbersToKeep(text) ? new JsonText(compact(text)) : value
  } catch {
    return text
  }
}
