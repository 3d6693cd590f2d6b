import type { Logger } from '../index.ts'
import { messageOf, withoutSecrets } from './failure.ts'
import { excerpt, note } from './output.ts'

/** Characters of a field. */
const LONGEST = 500

/** For commands: warnings and errors, and why. */
export const stderrLogger: Logger = {
  debug() {},
  info() {},
  warn: tell,
  error: tell,
  isLevelEnabled: (level) => level !== 'debug' && level !== 'info',
}

/** For those that serve: they also tell what they do. */
export const servingLogger: Logger = {
  ...stderrLogger,
  info: tell,
  isLevelEnabled: (level) => level !== 'debug',
}

/** The message says what event it is. */
function tell({ event, error, ...others }: { event?: unknown; error?: unknown }, message: string): void {
  const why = error === undefined ? '' : `: ${messageOf(error)}`
  const fields = Object.entries(others).map(([key, value]) => ` ${key}=${textOf(value)}`)
  note(withoutSecrets(`${message}${why}${fields.join('')}`))
}

function textOf(value: unknown): string {
  return excerpt(typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value)), LONGEST)
}
