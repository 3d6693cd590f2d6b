import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { EmbeddedStartError } from './errors.ts'

/** The user and group that the server runs as; empty means our own. */
export interface Account {
  uid?: number
  gid?: number
}

/**
 * Postgres refuses to run as root, so root runs the server with an existing account without rights.
 * It creates none: a server that is gone after the tests should not leave a user behind.
 */
export async function serverAccount(): Promise<Account> {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    const account = await lookUp(name)
    if (account) return account
  }
  throw new EmbeddedStartError(
    'Postgres refuses to run as root, and there is no user `postgres` or `nobody`',
    '',
  )
}

async function lookUp(name: string): Promise<Account | undefined> {
  try {
    return { uid: await askId('-u', name), gid: await askId('-g', name) }
  } catch {
    return undefined
  }
}

async function askId(flag: string, name: string): Promise<number> {
  const { stdout } = await promisify(execFile)('id', [flag, name])
  // macOS prints nobody's -2 as an unsigned number, which spawn would refuse.
  return Number(stdout) | 0
}
