import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
/** Lets the examples resolve the package to its sources. */
const TSCONFIG = fileURLToPath(new URL('./fixtures/tsconfig.json', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv
  readonly input?: string | Buffer
  /** The main module of another release. */
  readonly main?: URL
}

/** A line of the JSON log. */
export type LogLine = Record<string, unknown> & { event?: string; msg: string }

/** Runs `lockstep` from source in its own process. */
export class Command {
  readonly child: ChildProcess
  readonly ended: Promise<Ended>
  readonly lines: LogLine[] = []
  #stdout = ''
  #stderr = ''
  #waiting: (() => void)[] = []

  constructor(args: readonly string[], { env, input, main }: CommandOptions = {}) {
    const { DATABASE_URL, DATABASE_DIRECT_URL, LOCKSTEP_SCHEMA, DEBUG, ...rest } = process.env
    this.child = spawn(process.execPath, ['--import', 'tsx', main ? fileURLToPath(main) : MAIN, ...args], {
      env: { ...rest, NO_COLOR: '1', TSX_TSCONFIG_PATH: TSCONFIG, ...env },
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

export function fixture(name: string): string {
  return fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))
}
