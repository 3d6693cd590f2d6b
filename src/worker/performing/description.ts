import { boundText, describeError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { ignoreRejection } from '../../promises.ts'

/** A user's own: what is stored of an error. */
export type FormatError = (error: unknown) => string

/** What is stored of an error. */
export type Describe = (error: unknown) => string

/**
 * `formatError` is there to keep something out of the database. So where it fails, no text of the error's is stored or
 * logged, nor of its own: that may be made of the same. The failure itself is stored all the same.
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

/** The first line of its stack that is no part of its message. */
function placeOf(thrown: unknown): string {
  try {
    const { message, stack } = thrown as Error
    const place = stack!.slice(stack!.indexOf(message) + message.length).match(/\n\s+(at .+)/)?.[1]
    return place ? ` ${place}` : ''
  } catch {
    return ''
  }
}
