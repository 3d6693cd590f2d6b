import pg from 'pg'

const { BOOL, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON: JSON_TEXT, JSONB } = pg.types.builtins

const SECOND = 1_000_000n

/**
 * A bigint as a number, since counts and fences stay below 2^53. So do times in microseconds, from 1684 to 2255: others
 * are rounded down to the second, so that a cursor never lies behind the job it was taken from.
 */
export function wholeNumber(text: string): number {
  const number = Number(text)
  if (Number.isSafeInteger(number)) return number
  const rest = BigInt(text) % SECOND
  return Number(BigInt(text) - (rest < 0n ? rest + SECOND : rest))
}

const PARSERS = new Map<number, (text: string) => unknown>([
  [BOOL, (text) => text === 't'],
  ...[INT2, INT4, FLOAT4, FLOAT8].map((oid) => [oid, Number] as const),
  [INT8, wholeNumber],
  ...[JSON_TEXT, JSONB].map((oid) => [oid, (text: string) => JSON.parse(text)] as const),
])

/** How our own statements read what we compute with, whatever parsers the application has set for the driver. */
export const TYPES = {
  getTypeParser: (oid: number, format: 'text') => PARSERS.get(oid) ?? pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig

/** A text as a literal of SQL. */
export function quoteLiteral(text: string): string {
  return pg.escapeLiteral(text)
}
