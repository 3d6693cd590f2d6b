import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { EXTENSION, SOURCE } from '../../location.ts'
import { type Duty, dutyEnvironment } from './duty.ts'
import { type Entry, sharedClock } from './logbook.ts'

/** ms that a process has to end by itself. */
const PATIENCE = 15_000

/** A process of the demo, with its log entries. */
export class DemoProcess {
  readonly name: string
  readonly entries: Entry[] = []
  /** Resolves when the process is gone and everything it wrote has been read. */
  readonly gone: Promise<void>
  /** The latest time at which it can have ended, by the clock that all processes share. */
  goneAt = Number.POSITIVE_INFINITY
  /** Whether the demo ended it. */
  wasEnded = false
  readonly #child: ChildProcess
  readonly #ready: Promise<unknown>

  constructor(file: 'worker-process' | 'feed-process', duty: Duty) {
    this.name = duty.name
    this.#child = fork(fileURLToPath(new URL(`cli/demo/${file}.${EXTENSION}`, SOURCE)), {
      env: dutyEnvironment(duty),
      execArgv: EXTENSION === 'ts' ? ['--import', import.meta.resolve('tsx')] : [],
      stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'ipc'],
    })
    const lines = createInterface({ input: this.#child.stdio[3] as NodeJS.ReadableStream })
    this.#ready = once(lines, 'line')
    lines.on('line', (line) => this.entries.push(JSON.parse(line)))
    this.gone = new Promise((resolve) => {
      this.#child.once('error', () => resolve())
      this.#child.once('close', () => resolve())
      this.#child.once('exit', () => {
        this.goneAt = sharedClock()
      })
    })
  }

  get pid(): number {
    return this.#child.pid!
  }

  get succeeded(): boolean {
    return this.#child.exitCode === 0
  }

  /** How it ended, for people. */
  get ending(): string {
    return this.#child.signalCode ?? `exit code ${this.#child.exitCode}`
  }

  /** Resolves once it has written its first line; rejects if it ends before that. */
  async ready(): Promise<void> {
    await Promise.race([this.#ready, this.gone])
    if (this.entries.length === 0) throw new Error(`${this.name} ended before it was ready: ${this.ending}`)
  }

  /** Resolves to whether it ended when asked; kills it if it did not. */
  async stop(): Promise<boolean> {
    this.wasEnded = true
    if (this.#child.connected) this.#child.send('stop', () => {})
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), PATIENCE)
    await this.gone
    clearTimeout(timer)
    return this.succeeded
  }

  /** Kills it without warning, and resolves when it is gone. */
  async kill(): Promise<void> {
    this.wasEnded = true
    this.#child.kill('SIGKILL')
    await this.gone
  }

  /** The orders that its handlers have now, according to the entries read so far. */
  get inWork(): string[] {
    const open = new Map<string, readonly string[]>()
    for (const entry of this.entries) {
      if (entry.kind === 'begin') open.set(entry.run, entry.orders)
      else if (entry.kind === 'end') open.delete(entry.run)
    }
    return [...open.values()].flat()
  }
}
