import { type RawBuilder, sql } from 'kysely'

/**
 * A column of doubles by their bytes, for `doubleFrom`. As text they have as many digits as `extra_float_digits` of the
 * session says, which is the application's own: another number may come back, or the same one for two that differ.
 * What is sent to the server keeps all its digits in any session.
 */
export function exactDouble(column: string): RawBuilder<string> {
  return sql<string>`encode(float8send(${sql.ref(column)}), 'hex')`
}

export function doubleFrom(bytes: string): number {
  return Buffer.from(bytes, 'hex').readDoubleBE()
}
