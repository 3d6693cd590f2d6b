import { OptionError } from '../errors.ts'
import { show } from '../options.ts'

export const DEFAULT_SCHEMA = 'lockstep'
export const MAX_BYTES = 63

/**
 * Accepts any schema name that Postgres accepts, without quotes, dollars, backslashes and control characters, since
 * function bodies contain it too.
 * @throws OptionError
 */
export function checkSchemaName(schema: string): string {
  if (isIdentifier(schema) && !/["'$\\]/.test(schema) && schema !== 'information_schema') return schema
  throw new OptionError(
    `schema must be 1 to ${MAX_BYTES} bytes of text without quotes, $, \\ or control characters, not starting with pg_ and not information_schema, which backups leave out; got ${show(schema)}`,
  )
}

/** Whether Postgres accepts it, quoted, as a name that a user chooses, and it can be shown on one line. */
export function isIdentifier(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name !== '' &&
    Buffer.byteLength(name) <= MAX_BYTES &&
    !/[\p{Cc}\p{Cs}]/u.test(name) &&
    !name.startsWith('pg_')
  )
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
