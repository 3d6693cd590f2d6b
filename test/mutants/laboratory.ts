import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Edit, Mutant } from './mutants.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COPIED = ['src', 'sql', 'migrations', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']
const TIMEOUT = 180_000

/** What the tests said. */
export interface Examination {
  readonly passed: number
  /** `file › test` of the first that failed. */
  readonly failed: string | undefined
}

/** A copy of the project in which mutants live for a while. */
export class Laboratory {
  readonly #directory = mkdtempSync(join(tmpdir(), 'lockstep-mutants-'))
  readonly #serverUrl: string

  constructor(serverUrl: string) {
    this.#serverUrl = serverUrl
    for (const name of COPIED) cpSync(join(ROOT, name), join(this.#directory, name), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(this.#directory, 'node_modules'))
  }

  /** Runs tests on the mutant, until one fails: on to the end where it was the first, to see whether others pass. */
  async examine({ edits, tests }: Pick<Mutant, 'edits' | 'tests'>): Promise<Examination> {
    const files = [...new Set(edits.map(({ file }) => file))]
    const originals = files.map((file) => [file, readFileSync(join(this.#directory, file), 'utf8')] as const)
    try {
      for (const edit of edits) this.#apply(edit)
      const quick = await this.#run(tests, ['--bail', '1'])
      return quick.failed && quick.passed === 0 ? await this.#run(tests) : quick
    } finally {
      for (const [file, text] of originals) writeFileSync(join(this.#directory, file), text)
    }
  }

  close(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #apply(edit: Edit): void {
    const path = join(this.#directory, edit.file)
    writeFileSync(path, mutate(edit, readFileSync(path, 'utf8')))
  }

  async #run(tests: readonly string[], more: readonly string[] = []): Promise<Examination> {
    const report = join(this.#directory, 'report.json')
    rmSync(report, { force: true })
    const files = tests.map((name) => `test/${name}.test.ts`)
    const options = ['--no-file-parallelism', '--reporter', 'json', '--outputFile', report, ...more]
    await vitest([...files, ...options], this.#directory, this.#serverUrl)
    return read(report, this.#directory)
  }
}

/** @throws Error where the source has moved on */
export function mutate({ file, from, to, times = 1 }: Edit, text: string): string {
  const found = text.split(from).length - 1
  if (found !== times) throw new Error(`${file} has ${found} of ${JSON.stringify(from)}, not ${times}`)
  return text.replaceAll(from, () => to)
}

/** Its exit code says no more than the report. */
function vitest(options: readonly string[], cwd: string, serverUrl: string): Promise<void> {
  const env = { ...process.env, DATABASE_URL: serverUrl }
  const main = join(ROOT, 'node_modules/vitest/vitest.mjs')
  return new Promise((resolve) => {
    execFile(process.execPath, [main, 'run', ...options], { cwd, env, timeout: TIMEOUT }, () => resolve())
  })
}

interface Report {
  readonly numPassedTests: number
  readonly testResults: { name: string; assertionResults: { status: string; fullName: string }[] }[]
}

function read(report: string, directory: string): Examination {
  const { numPassedTests, testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report
  const [failed] = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName }) => `${name.slice(directory.length + 1)} › ${fullName}`),
  )
  return { passed: numPassedTests, failed }
}
