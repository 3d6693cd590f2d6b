import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ROOT } from '../support/package.ts'

interface Manifest {
  readonly bin?: Readonly<Record<string, string>> | string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

/** Copies an example of the docs, without what someone has installed there. */
export async function copyExample(name: string, folder: string): Promise<void> {
  const from = join(ROOT, 'docs/examples', name)
  await cp(from, folder, {
    recursive: true,
    filter: (path) => !/[\\/](node_modules|\.next|package-lock\.json)$/.test(path.slice(from.length)),
  })
}

/**
 * Gives a copied example what its package.json lists and nothing else: the package that was built for the test, and others
 * of this project.
 */
export async function linkPackages(folder: string, builtPackage: string): Promise<void> {
  const { dependencies, devDependencies } = await manifestOf(folder)
  for (const listed of Object.keys({ ...dependencies, ...devDependencies })) {
    const from = listed === 'pg-lockstep' ? builtPackage : join(ROOT, 'node_modules', listed)
    if (!existsSync(from))
      throw new Error(`${folder} lists ${listed}: add it to devDependencies of the project`)
    await link(from, join(folder, 'node_modules', listed))
    await linkCommands(listed, from, join(folder, 'node_modules/.bin'))
  }
}

async function manifestOf(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
}

async function linkCommands(listed: string, from: string, folder: string): Promise<void> {
  const { bin = {} } = await manifestOf(from)
  const commands = typeof bin === 'string' ? { [listed]: bin } : bin
  for (const [command, file] of Object.entries(commands)) await link(join(from, file), join(folder, command))
}

async function link(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await symlink(from, to)
}
