import { describeError } from '../errors.ts'
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

/** The input can't be read or stored. */
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

/** Prints the error to stderr, with its stack only if DEBUG=lockstep is set, and returns the exit code. */
export function reportFailure(error: unknown): number {
  const debugging = /\blockstep\b|\*/.test(process.env.DEBUG ?? '')
  const message = debugging ? describeError(error) : messageOf(error)
  process.stderr.write(`lockstep: ${shown(message)}\n`)
  return exitCodeOf(error)
}

/** An AggregateError, such as for a host name with several addresses, has no message of its own. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}

const secrets = new Set<string>()

/** A shorter one is in too many words: masked everywhere, `a` would leave nothing legible. In a URL it is masked all the same. */
const SHORTEST = 6

/** From now on, no failure shows the connection string or its password, whatever a driver puts in its messages. */
export function keepSecret(connectionString: string): void {
  secrets.add(connectionString)
  try {
    const { password, searchParams } = new URL(connectionString)
    for (const secret of [password, searchParams.get('password')]) {
      if (secret) secrets.add(secret).add(decodeURIComponent(secret))
    }
  } catch {}
}

/** A message that is safe to print: without secrets, and without characters that move the cursor. */
export function shown(text: string): string {
  return legible(withoutSecrets(text))
}

/** Finds passwords in any connection string, even in an unexpected place such as after a misspelt option. */
const PASSWORDS = [/(postgres(?:ql)?:\/\/[^\s:@]*:)\S*(?=@)/gi, /(\bpassword\s*=\s*)[^\s&'"]+/gi]

export function withoutSecrets(text: string): string {
  const longestFirst = [...secrets]
    .filter(({ length }) => length >= SHORTEST)
    .sort((a, b) => b.length - a.length)
  const known = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text)
  return PASSWORDS.reduce((rest, password) => rest.replace(password, '$1***'), known)
}
