import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv
  readonly input?: string | Buffer
  /** What Node is started with. */
  readonly flags?: readonly string[]
  /** The main module of another release, which is not built. */
  readonly main?: URL
}

/** A line of the JSON log. */
export type LogLine = Record<string, unknown> & { event?: string; msg: string }

/** Runs `lockstep`, as it is built from the source under test, in its own process. */
export class Command {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  readonly lines: LogLine[] = []
  #stdout = ''
  #stderr = ''
  #waiting: (() => void)[] = []

  constructor(args: readonly string[], { env, input, flags = [], main }: CommandOptions = {}) {
    const { DATABASE_URL, DATABASE_DIRECT_URL, LOCKSTEP_SCHEMA, DEBUG, ...rest } = process.env
    const file = main ? ['--import', 'tsx', fileURLToPath(main)] : [builtMain()]
    this.child = spawn(process.execPath, [...flags, ...file, ...args], {
      env: { ...rest, NO_COLOR: '1', ...env },
    })
    this.child.stdin!.on('error', () => {})
    this.child.stdin!.end(input)
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => this.#take(text))
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.ended = once(this.child, 'close').then(([code]) => {
      this.#wake()
      return { code: code as number | null, stdout: this.#stdout, stderr: this.#stderr }
    })
  }

  /** Resolves to the first matching line of the log, whether it was logged already or comes later. */
  async line(matches: (line: LogLine) => boolean): Promise<LogLine> {
    for (;;) {
      const found = this.lines.find(matches)
      if (found) return found
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        const { code, stdout, stderr } = await this.ended
        throw new Error(`lockstep ended with ${code} before it logged that:\n${stdout}\n${stderr}`)
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  #take(text: string): void {
    const before = this.#stdout.lastIndexOf('\n') + 1
    this.#stdout += text
    for (const line of this.#stdout.slice(before).split('\n').slice(0, -1)) {
      if (line.startsWith('{')) this.lines.push(JSON.parse(line))
    }
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }
}

/** Runs a command line to its end. */
export function lockstep(args: readonly string[], options?: CommandOptions): Promise<Ended> {
  return new Command(args, options).ended
}

/** The path of a module whose queues the built package can perform. */
export function fixture(name: string): string {
  return inBuilt(`test/cli/fixtures/${name}`)
}

/** The main module of `lockstep`. */
export function builtMain(): string {
  return inBuilt('dist/src/cli/main.js')
}

function inBuilt(path: string): string {
  return join(inject('builtPackage'), path)
}
