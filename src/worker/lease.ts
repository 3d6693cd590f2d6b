import type { Worker as Thread } from 'node:worker_threads'
import type { ConnectionConfig } from '../postgres/connection.ts'
import { toLockstepError } from '../postgres/failure.ts'
import type { ProcessInfo } from '../store/process.ts'
import { LeaseState, monotonicMs } from './lease-state.ts'
import type { LeaseCommand, LeaseMessage, LeaseThreadData } from './lease-thread.ts'
import { startThread } from './start-thread.ts'

export interface LeaseOptions {
  readonly config: ConnectionConfig
  readonly schema: string
  readonly info: ProcessInfo
  /** ms a process is believed alive without a sign of life. */
  readonly lease: number
  readonly killAtEnd: boolean
  /** The lease will end: abort what runs, and `register` again when nothing does. */
  onEnding(): void
}

/**
 * The process's lease, renewed by a thread of its own with its own connection: a handler that blocks the event
 * loop doesn't lose it.
 */
export class Lease {
  readonly #options: LeaseOptions
  readonly #state = new LeaseState()
  #thread: Thread | undefined
  #registering: PromiseWithResolvers | undefined
  #processId = 0
  #ending = false

  constructor(options: LeaseOptions) {
    this.#options = options
  }

  /** This process in the table of processes, while its lease runs. */
  get processId(): number {
    return this.#processId
  }

  /** Whether new work may start. False from the moment its end is certain, whatever messages are still to come. */
  get valid(): boolean {
    return !this.#ending && monotonicMs() < this.#state.deadline - this.#options.lease / 5
  }

  /** How many handlers run: who ignores the end of the lease is killed with the process, where that is asked for. */
  set working(count: number) {
    this.#state.setWorking(count)
  }

  /** Starts the thread and registers the process. */
  async start(): Promise<void> {
    const { config, schema, info, lease, killAtEnd } = this.#options
    const workerData: LeaseThreadData = {
      config,
      schema,
      info,
      lease,
      killAtEnd,
      numbers: this.#state.numbers,
    }
    this.#thread = startThread('lease-thread', workerData)
    this.#thread.on('message', (message: LeaseMessage) => this.#hear(message))
    this.#thread.on('error', (error) => this.#registering?.reject(error))
    await this.register()
  }

  /**
   * A new identity: at the start, after a lease has ended, and when an answer to a claim was lost. What that
   * claim took belongs to a process nobody knows of, and is free once the former identity has retired.
   * Rejects where the database is out of reach.
   */
  async register(): Promise<void> {
    const registering = promiseWithResolvers()
    this.#registering = registering
    this.#send({ kind: 'register' })
    await registering.promise
    this.#ending = false
  }

  /** Removes an identity no round belongs to any more. */
  retire(processId: number): void {
    this.#send({ kind: 'retire', processId })
  }

  async stop(): Promise<void> {
    const thread = this.#thread
    if (!thread) return
    this.#thread = undefined
    const exited = new Promise((resolve) => thread.once('exit', resolve))
    thread.postMessage({ kind: 'stop' } satisfies LeaseCommand)
    await exited
  }

  #send(command: LeaseCommand): void {
    this.#thread?.postMessage(command)
  }

  #hear(message: LeaseMessage): void {
    if (message.kind === 'registered') {
      this.#processId = message.processId
      this.#registering?.resolve()
    } else if (message.kind === 'failed') {
      this.#registering?.reject(
        toLockstepError(Object.assign(new Error(message.message), { code: message.code })),
      )
    } else if (!this.#ending) {
      this.#ending = true
      this.#options.onEnding()
    }
  }
}

interface PromiseWithResolvers {
  readonly promise: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

/** Promise.withResolvers of later Nodes. */
function promiseWithResolvers(): PromiseWithResolvers {
  let resolve!: () => void
  let reject!: (error: unknown) => void
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
