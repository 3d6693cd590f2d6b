import { execFile } from 'node:child_process'
import { chmod, copyFile, cp, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Builds the package into a folder, with the dependencies of this project. Other tests and people use `dist` meanwhile, and
 * what is there may be old.
 */
export async function buildPackage(folder: string): Promise<void> {
  const dist = join(folder, 'dist')
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  await run(process.execPath, [compiler, '-p', join(ROOT, 'tsconfig.build.json'), '--outDir', dist])
  await cp(join(ROOT, 'sql'), join(dist, 'sql'), { recursive: true })
  await chmod(join(dist, 'src/cli/main.js'), 0o755)
  await copyFile(join(ROOT, 'package.json'), join(folder, 'package.json'))
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
}
