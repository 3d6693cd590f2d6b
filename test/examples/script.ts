import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { eventually } from '../support/worker-environment.ts'

/** A script of an example's package.json, as a process without npm, which would not pass signals on. */
export class Script {
  readonly #name: string
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown[]>
  #output = ''
  #over = false

  constructor(folder: string, name: string, env: NodeJS.ProcessEnv = {}) {
    const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const path = [join(folder, 'node_modules/.bin'), process.env.PATH].join(delimiter)
    this.#name = name
    // In a process group of its own, which holds all that it starts.
    this.#child = spawn('sh', ['-c', `exec ${scripts[name]}`], {
      cwd: folder,
      env: { ...plainEnvironment(), PATH: path, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#ended = once(this.#child, 'close').finally(() => {
      this.#over = true
    })
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text
        this.#child.emit('output')
      })
  }

  /** Resolves to the first match of what it prints. Rejects if it ends without one. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#output)
      if (match) return match
      if (this.#over) throw new Error(`${this.#name} ended without ${pattern}:\n${this.#output}`)
      await Promise.race([once(this.#child, 'output'), this.#ended])
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Resolves to what it printed. Rejects unless it ends with this exit code, and leaves no process of its group. */
  async ends(expected = 0): Promise<string> {
    const [code, signal] = await this.#ended
    if (code !== expected) throw new Error(`${this.#name} ended with ${signal ?? code}:\n${this.#output}`)
    // The compiler of tsx is a process that ends a moment after its parent.
    await eventually(() => {
      if (this.#signalGroup(0)) throw new Error(`${this.#name} left processes behind`)
    })
    return this.#output
  }

  /** For a test that failed. */
  kill(): void {
    this.#signalGroup('SIGKILL')
  }

  /** Whether any process was there to get it. */
  #signalGroup(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#child.pid!, signal)
    } catch {
      return false
    }
  }
}

/** Without what this run of vitest and npm has set. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS, NODE_ENV, VITEST, DATABASE_URL, LOCKSTEP_SCHEMA, ...rest } = process.env
  const kept = Object.entries(rest).filter(([name]) => !name.startsWith('npm_'))
  return Object.fromEntries(kept) as NodeJS.ProcessEnv
}
