import { LockstepError } from '../index.ts'
import { EXIT } from './exit.ts'
import { Interrupted } from './interruption.ts'
import { legible } from './output.ts'

/** The command line itself is wrong. */
export class UsageError extends LockstepError {
  constructor(message: string, options?: ErrorOptions) {
    super('LOCKSTEP_USAGE', message, options)
  }
}

/** What was to be read can't be stored. */
export class DataError extends LockstepError {
  constructor(message: string, options?: ErrorOptions) {
    super('LOCKSTEP_BAD_DATA', message, options)
  }
}

const USAGE_CODES = ['LOCKSTEP_USAGE', 'LOCKSTEP_BAD_OPTION', 'LOCKSTEP_BAD_QUEUE']

export function exitCodeOf(error: unknown): number {
  if (!(error instanceof LockstepError)) return EXIT.failed
  if (error instanceof Interrupted) return error.exitCode
  return USAGE_CODES.includes(error.code) ? EXIT.usage : EXIT.failed
}

/** Says on stderr what went wrong, without a stack unless DEBUG=lockstep asks for it, and returns the exit code. */
export function reportFailure(error: unknown): number {
  const debugging = /\blockstep\b|\*/.test(process.env.DEBUG ?? '')
  const stack = debugging && error instanceof Error ? stackOf(error) : undefined
  process.stderr.write(`lockstep: ${shown(stack ?? messageOf(error))}\n`)
  return exitCodeOf(error)
}

/** An AggregateError, such as of a name with several addresses, has no message of its own. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by: ${stackOf(error.cause)}` : ''
  return `${error.stack ?? error.message}${cause}`
}

const secrets = new Set<string>()

/** From now on no failure shows it, whatever a driver puts in its messages. */
export function keepSecret(connectionString: string): void {
  secrets.add(connectionString)
  try {
    const { password, searchParams } = new URL(connectionString)
    for (const secret of [password, searchParams.get('password')]) {
      if (secret) secrets.add(secret).add(decodeURIComponent(secret))
    }
  } catch {}
}

/** What a person may see of a message: no secret, and nothing that moves the cursor. */
export function shown(text: string): string {
  return legible(withoutSecrets(text))
}

/** In any connection string, also one that stands where none was expected, such as behind a misspelt option. */
const PASSWORDS = [/(postgres(?:ql)?:\/\/[^\s:@]*:)\S*(?=@)/gi, /(\bpassword\s*=\s*)[^\s&'"]+/gi]

function withoutSecrets(text: string): string {
  const longestFirst = [...secrets].sort((a, b) => b.length - a.length)
  const known = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text)
  return PASSWORDS.reduce((rest, password) => rest.replace(password, '$1***'), known)
}
