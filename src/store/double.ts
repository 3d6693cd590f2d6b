import { type RawBuilder, sql } from 'kysely'

/**
 * Reads a column of doubles as bytes, for `doubleFrom`. As text, they would have as many digits as the application's
 * setting `extra_float_digits` says, so a different number could come back, or the same one for two that differ.
 * Numbers sent to the server keep all their digits in any session.
 */
export function exactDouble(column: string): RawBuilder<string> {
  return sql<string>`encode(float8send(${sql.ref(column)}), 'hex')`
}

export function doubleFrom(bytes: string): number {
  return Buffer.from(bytes, 'hex').readDoubleBE()
}
