import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Copy } from './copy.ts'
import type { Mutant } from './mutant.ts'
import { type Finding, type Report, read } from './report.ts'

/** Passes if a queue works at all. */
const ALIVE = 'mutants/alive'
/** ms */
const TIMEOUT = 300_000
const CONTROL_TIMEOUT = 1_800_000

export interface MutantRunnerOptions {
  /** The directory of the project. */
  readonly root: string
  /** A server on which tests may create databases. */
  readonly serverUrl: string
  /** Ends everything under way. */
  readonly signal: AbortSignal
}

/** The verdict on a mutant: noticed by a test, noticed by none, or not a mutant because it breaks everything. */
export interface Examination {
  readonly verdict: 'noticed' | 'unnoticed' | 'broken'
  /** `file › test` of the test that noticed it. */
  readonly by?: string
  readonly reason?: string
}

/** Runs tests on mutants in a copy of the project. */
export class MutantRunner {
  readonly #options: MutantRunnerOptions
  readonly #copy: Copy

  constructor(options: MutantRunnerOptions) {
    this.#options = options
    this.#copy = new Copy(options.root)
  }

  /** Runs the tests of all mutants without any mutant: a test that fails anyway notices nothing. */
  control(mutants: readonly Mutant[]): Promise<Finding> {
    const tests = new Set([ALIVE, ...mutants.flatMap(({ tests }) => tests)])
    return this.#run([...tests], [], CONTROL_TIMEOUT)
  }

  /** Runs the files one after the other, until a test fails. */
  examine({ edits, tests }: Mutant): Promise<Examination> {
    return this.#copy.mutated(edits, async () => {
      let passed = 0
      for (const test of tests) {
        const finding = await this.#run([test], ['--bail', '1'], TIMEOUT)
        passed += finding.passed
        if (finding.failed) return this.#judge(finding, passed)
      }
      return passed > 0 ? { verdict: 'unnoticed' } : { verdict: 'broken', reason: 'no test ran' }
    })
  }

  close(): void {
    this.#copy.remove()
  }

  /** If nothing works at all under a mutant, any test notices it, and that shows nothing. */
  async #judge({ failed, reason, broken }: Finding, passed: number): Promise<Examination> {
    if (broken) return { verdict: 'broken', reason: `${failed}: ${reason}` }
    if (passed > 0 || !(await this.#run([ALIVE], [], TIMEOUT)).failed)
      return { verdict: 'noticed', by: failed, reason }
    return { verdict: 'broken', reason: `it does not even start: ${reason}` }
  }

  async #run(tests: readonly string[], options: readonly string[], timeout: number): Promise<Finding> {
    this.#options.signal.throwIfAborted()
    const { directory } = this.#copy
    const report = join(directory, 'report.json')
    rmSync(report, { force: true })
    const files = tests.map((name) => `test/${name}.test.ts`)
    await this.#vitest([...files, '--reporter', 'json', '--outputFile', report, ...options], timeout)
    this.#options.signal.throwIfAborted()
    if (existsSync(report)) return read(JSON.parse(readFileSync(report, 'utf8')) as Report, directory)
    return {
      passed: 0,
      failed: files.join(' '),
      reason: `no report within ${timeout / 1000} s`,
      broken: true,
    }
  }

  /** Runs in its own process group, so that nothing the tests have started outlives it. */
  async #vitest(options: readonly string[], timeout: number): Promise<void> {
    const { serverUrl, signal } = this.#options
    const { directory: cwd } = this.#copy
    const env = { ...process.env, DATABASE_URL: serverUrl }
    const vitest = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...options], {
      cwd,
      env,
      detached: true,
      stdio: 'ignore',
    })
    const exited = once(vitest, 'exit')
    const kill = () => {
      if (vitest.exitCode === null && vitest.signalCode === null) process.kill(-vitest.pid!, 'SIGKILL')
    }
    const timer = setTimeout(kill, timeout)
    signal.addEventListener('abort', kill)
    await exited
    clearTimeout(timer)
    signal.removeEventListener('abort', kill)
  }
}
