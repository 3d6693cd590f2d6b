import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PEERS = fileURLToPath(new URL('peers', import.meta.url))

/**
 * Installs the peers and the Node that all contenders run under, unless they are there, and resolves to that Node's
 * path. The package `node` would download it in an install script; here it comes from the package for the platform,
 * which that script would download.
 */
export async function prepareRuntime(): Promise<string> {
  const node = `${PEERS}/node_modules/node-${process.platform}-${process.arch}/bin/node`
  if (!existsSync(`${PEERS}/node_modules`)) {
    console.error('Installing the peers: npm install in bench/peers')
    await run('npm', ['install', '--no-audit', '--no-fund'], { cwd: PEERS })
  }
  return existsSync(node) ? node : process.execPath
}

/** `name version`, as installed. */
export async function versionsOf(names: readonly string[]): Promise<string[]> {
  return Promise.all(
    names.map(async (name) => {
      const at = `./peers/node_modules/${name}/package.json`
      const { default: manifest } = await import(at, { with: { type: 'json' } })
      return `${name} ${manifest.version}`
    }),
  )
}

export async function versionOf(node: string): Promise<string> {
  return (await run(node, ['--version'])).stdout.trim()
}
