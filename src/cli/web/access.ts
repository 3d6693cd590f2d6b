import { readFile } from 'node:fs/promises'
import { isIPv4 } from 'node:net'
import type { BasicUser } from '../../web/index.ts'
import { keepSecret, UsageError } from '../failure.ts'
import { quote } from '../suggest.ts'
import type { WebFlags } from '../web.ts'

/** Who may come in: by the link that is printed, by name and password, or everyone. */
export type Entrance =
  | { readonly kind: 'link' | 'open' }
  | { readonly kind: 'users'; readonly users: BasicUser[] }

/** @throws UsageError, which shows no password */
export async function entranceOf(
  { host, open, basicAuthFile }: WebFlags,
  { LOCKSTEP_BASIC_AUTH } = process.env,
): Promise<Entrance> {
  if (basicAuthFile !== undefined && LOCKSTEP_BASIC_AUTH)
    throw new UsageError('LOCKSTEP_BASIC_AUTH is set, and --basic-auth-file is given: use one of them')
  const text = basicAuthFile === undefined ? LOCKSTEP_BASIC_AUTH : await contentOf(basicAuthFile)
  if (text?.trim() === '' && text !== '')
    throw new UsageError('LOCKSTEP_BASIC_AUTH is blank: set it to user:password, or unset it')
  if (text && open)
    throw new UsageError('--open and names with passwords exclude each other: use one of them')
  if (text) return { kind: 'users', users: usersOf(text) }
  if (open) return { kind: 'open' }
  if (isLoopback(host)) return { kind: 'link' }
  throw new UsageError(
    `others can reach ${quote(host)}: set LOCKSTEP_BASIC_AUTH to user:password, or give --basic-auth-file; --open lets everyone in`,
  )
}

/** Only this machine reaches it. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

async function contentOf(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`--basic-auth-file can't be read: ${error.message}`)
  })
  if (text.trim() === '') throw new UsageError('--basic-auth-file is empty: write user:password into it')
  return text
}

function usersOf(text: string): BasicUser[] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  return lines.map((line, index) => {
    const colon = line.indexOf(':')
    const [username, password] = [line.slice(0, colon), line.slice(colon + 1)]
    if (colon < 1 || password === '')
      throw new UsageError(`line ${index + 1} of the names and passwords must be user:password`)
    keepSecret(password)
    // Nobody sees it in a file of secrets, and each login would fail.
    if ([username, password].some((part) => part !== part.trim()))
      throw new UsageError(
        `line ${index + 1} of the names and passwords has a space, or another invisible character, around the name or the password: remove it`,
      )
    return { username, password }
  })
}
