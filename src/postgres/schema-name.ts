import { OptionError } from '../errors.ts'
import { show } from '../options.ts'

export const DEFAULT_SCHEMA = 'lockstep'
const MAX_BYTES = 63

/**
 * Any name Postgres takes for a schema, but for quotes, dollars, backslashes and control characters: it also
 * stands inside function bodies.
 * @throws OptionError
 */
export function checkSchemaName(schema: string): string {
  const fine =
    typeof schema === 'string' &&
    schema !== '' &&
    Buffer.byteLength(schema) <= MAX_BYTES &&
    !/["'$\\\p{Cc}\p{Cs}]/u.test(schema)
  if (fine && !schema.startsWith('pg_')) return schema
  throw new OptionError(
    `schema must be 1 to ${MAX_BYTES} bytes of text without quotes, $, \\ or control characters, not starting with pg_; got ${show(schema)}`,
  )
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
