import { boundText, describeError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { ignoreRejection } from '../../promises.ts'

/** The user's function: returns the text to store for an error. */
export type FormatError = (error: unknown) => string

/** Returns the text to store for an error. */
export type Describe = (error: unknown) => string

/**
 * The purpose of `formatError` is to keep something out of the database. So if it fails, neither the text of the error nor
 * that of its own error is stored or logged: the latter may be made of the former. The failure itself is stored all the
 * same.
 */
export function describer(formatError: FormatError | undefined, logger: Logger): Describe {
  if (!formatError) return describeError
  return (error) => {
    let problem = 'it returned no text'
    try {
      const text: unknown = formatError(error)
      if (typeof text === 'string') return boundText(text)
      ignoreRejection(text)
    } catch (thrown) {
      problem = `it threw ${classOf(thrown)}${placeOf(thrown)}`
    }
    const kind = classOf(error)
    logger.error({ problem, kind }, '`formatError` failed: of the error its class alone is stored')
    return boundText(`${kind} (\`formatError\` failed, so nothing else is told of it)`)
  }
}

function classOf(value: unknown): string {
  try {
    if (typeof value !== 'object' || value === null) return typeof value
    return String(value.constructor.name)
  } catch {
    return 'object'
  }
}

/** The first line of its stack that is not part of its message. */
function placeOf(thrown: unknown): string {
  try {
    const { message, stack } = thrown as Error
    const place = stack!.slice(stack!.indexOf(message) + message.length).match(/\n\s+(at .+)/)?.[1]
    return place ? ` ${place}` : ''
  } catch {
    return ''
  }
}
