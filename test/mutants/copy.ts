import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type Edit, mutate } from './mutant.ts'

const COPIED = [
  '.ci/build.mjs',
  'src',
  'sql',
  'migrations',
  'test',
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'vitest.config.ts',
]

/** A copy of the project in which mutants live for a while. */
export class Copy {
  readonly directory = mkdtempSync(join(tmpdir(), 'lockstep-mutants-'))

  constructor(root: string) {
    try {
      this.#fill(root)
    } catch (error) {
      this.remove()
      throw error
    }
  }

  /** Does the work while the edits are in the files. */
  async mutated<T>(edits: readonly Edit[], work: () => Promise<T>): Promise<T> {
    const files = [...new Set(edits.map(({ file }) => join(this.directory, file)))]
    const originals = files.map((file) => [file, readFileSync(file, 'utf8')] as const)
    try {
      for (const edit of edits) this.edit(edit)
      return await work()
    } finally {
      for (const [file, text] of originals) writeFileSync(file, text)
    }
  }

  /** Stays in the copy for good. */
  edit(edit: Edit): void {
    const file = join(this.directory, edit.file)
    writeFileSync(file, mutate(edit, readFileSync(file, 'utf8')))
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 })
  }

  #fill(root: string): void {
    // Without hidden folders, which other tests create and remove meanwhile.
    const filter = (path: string) => !basename(path).startsWith('.')
    for (const name of COPIED)
      cpSync(join(root, name), join(this.directory, name), { recursive: true, filter })
    // Links each package separately, so that what tools cache beside the packages stays in the copy.
    mkdirSync(join(this.directory, 'node_modules'))
    for (const name of readdirSync(join(root, 'node_modules'))) {
      if (name.startsWith('.vite')) continue
      symlinkSync(join(root, 'node_modules', name), join(this.directory, 'node_modules', name))
    }
  }
}
