import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { now, type Run, readRuns } from './handler-log.ts'
import type { WorkerProcessMessage, WorkerProcessOptions } from './worker-process.ts'

const CHILD = new URL('./worker-process.ts', import.meta.url)
const DEADLINE = 60_000

/** Worker processes that share a log; `end()` leaves none behind. */
export class WorkerProcesses {
  readonly #directory = mkdtempSync(join(tmpdir(), 'lockstep-processes-'))
  readonly log = join(this.#directory, 'handlers.log')
  readonly #all: WorkerProcess[] = []

  /** Resolves when the worker has started. */
  async start(options: Omit<WorkerProcessOptions, 'log'>, module?: URL): Promise<WorkerProcess> {
    const started = this.fork(options, module)
    await started.heard('ready')
    return started
  }

  /** `module` may be that of another release or worker; `heap` is the limit of its JavaScript heap in MB. */
  fork(options: Omit<WorkerProcessOptions, 'log'>, module = CHILD, heap?: number): WorkerProcess {
    const limits = heap ? [`--max-old-space-size=${heap}`] : []
    const child = fork(module, [], { execArgv: ['--import', 'tsx', ...limits], silent: heap !== undefined })
    const forked = new WorkerProcess(child)
    this.#all.push(forked)
    child.send({ ...options, log: this.log })
    return forked
  }

  /** Those of all processes so far. */
  get runs(): Run[] {
    return readRuns(this.log)
  }

  /** Waits until this process has completed more than ten further runs. */
  async moreRunsOf(worker: WorkerProcess, timeout = DEADLINE): Promise<void> {
    const of = () => this.runs.filter(({ process, accepted }) => process === worker.name && accepted).length
    const before = of()
    await vi.waitUntil(() => of() > before + 10, { timeout, interval: 100 })
  }

  /** When each ended process has ended, by the name that its runs have in the log. */
  get deaths(): Map<string, bigint> {
    const dead = this.#all.filter(({ endedAt }) => endedAt !== undefined)
    return new Map(dead.map(({ name, endedAt }) => [name, endedAt!]))
  }

  async end(): Promise<void> {
    await Promise.all(this.#all.map((one) => one.kill()))
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

export class WorkerProcess {
  readonly child: ChildProcess
  readonly messages: WorkerProcessMessage[] = []
  endedAt: bigint | undefined
  readonly #ended: Promise<unknown>

  constructor(child: ChildProcess) {
    this.child = child
    this.#ended = once(child, 'exit').then(() => {
      this.endedAt = now()
    })
    child.on('message', (message: WorkerProcessMessage) => {
      this.messages.push(message)
      child.emit('heard')
    })
  }

  get name(): string {
    return String(this.child.pid)
  }

  get processId(): number {
    return (this.of('ready')[0] as { processId: number }).processId
  }

  /** The details of all messages of one event so far. */
  of(event: WorkerProcessMessage['event']): unknown[] {
    return this.messages.filter((message) => message.event === event).map(({ detail }) => detail)
  }

  /** Resolves to the first matching detail of the event, whether it has come already or comes later. */
  async heard<D>(
    event: WorkerProcessMessage['event'],
    fits: (detail: D) => boolean = () => true,
  ): Promise<D> {
    const until = AbortSignal.timeout(DEADLINE)
    for (;;) {
      const found = (this.of(event) as D[]).find(fits)
      if (found !== undefined) return found
      if (this.endedAt !== undefined) throw new Error(`the process ended before "${event}"`)
      await Promise.race([once(this.child, 'heard', { signal: until }), this.#ended])
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  /** Resolves when it has ended by itself. */
  async ended(): Promise<void> {
    await this.#ended
  }

  /** Resolves when it is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.#ended
  }

  /** Lets gated handlers end. */
  open(): void {
    this.child.send('open')
  }

  /** Stops the worker; resolves when the process has ended. */
  async stop(): Promise<void> {
    this.child.send('stop')
    await this.#ended
  }
}
