import { execFile } from 'node:child_process'
import { copyFile, cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

const run = promisify(execFile)
export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

declare module 'vitest' {
  interface ProvidedContext {
    /** A folder with the package as it is built from the source under test, and the dependencies of this project. */
    builtPackage: string
  }
}

/** `dist` may be old, and other tests and people use it. */
export default async function provideBuiltPackage(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'lockstep-built-'))
  // Whether its types are right is for `npm run typecheck`.
  await buildPackage(folder, '--no-types')
  project.provide('builtPackage', folder)
  return () => rm(folder, { recursive: true })
}

/** `flags`: of the build. */
export async function buildPackage(folder: string, ...flags: readonly string[]): Promise<void> {
  await run(process.execPath, [join(ROOT, '.ci/build.mjs'), join(folder, 'dist'), ...flags])
  // There, they get what is built, too.
  const fixtures = 'test/cli/fixtures'
  await cp(join(ROOT, fixtures), join(folder, fixtures), { recursive: true })
  await copyFile(join(ROOT, 'package.json'), join(folder, 'package.json'))
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
}
