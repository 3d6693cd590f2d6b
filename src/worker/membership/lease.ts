import { MessageChannel, type Worker as Thread } from 'node:worker_threads'
import type { ConnectionConfig } from '../../postgres/client.ts'
import { toLockstepError } from '../../postgres/failure.ts'
import { forThread } from '../../postgres/thread-config.ts'
import type { ProcessInfo, ProcessRequest } from '../../store/process.ts'
import type { ProcessReport } from '../../store/process-report.ts'
import { LeaseState, warningBefore } from './lease-state.ts'
import type { LeaseCommand, LeaseMessage, LeaseThreadData } from './lease-thread.ts'
import { LentSessions } from './lent-sessions.ts'
import { errorOf } from './sent-error.ts'
import { monotonicMs } from './shared-clock.ts'
import { startThread } from './start-thread.ts'

export interface LeaseOptions {
  readonly config: ConnectionConfig
  readonly schema: string
  readonly info: ProcessInfo
  /** ms that a process counts as alive without a sign of life. */
  readonly lease: number
  readonly killAtEnd: boolean
  /** The lease will end. Abort what runs, and call `register` again when nothing runs any more. */
  onEnding(): void
  /**
   * Its connection broke and was replaced, possibly by one to another server. A server that took over may lack the last
   * outcomes, and may have claims of this process that are unknown here. Call `register` again: they are freed with the
   * former membership.
   */
  onReconnected(): void
  /** What the process does, to be stored with the next renewal. */
  report(): ProcessReport
  /** Someone asked for this while the former membership that it was asked of retired. */
  onRequest(request: ProcessRequest): void
  /** `duration`: ms that the renewal took. */
  onRenewed(processId: number, duration: number): void
  /** Renewing it has failed, and is tried again. Called once until it succeeds. */
  onUnrenewed(error: unknown): void
  /** A report could not be stored; the lease was renewed without. Called once until one is stored. */
  onUnreported(error: unknown): void
  /** The thread ended by itself; `onEnding` is called next. */
  onFailure(error: unknown): void
}

/**
 * The process's lease. A separate thread renews it over its own connection, so that a handler that blocks the event loop
 * doesn't lose it.
 */
export class Lease {
  readonly #options: LeaseOptions
  readonly #state = new LeaseState()
  #thread: Thread | undefined
  #killing: NodeJS.Timeout | undefined
  #registering: PromiseWithResolvers | undefined
  #processId = 0
  /** How many leases there have been, including the one that runs, as far as the thread has reported. */
  #leases = 0
  /** The first membership under this lease. */
  #first = 0
  #ending = false

  constructor(options: LeaseOptions) {
    this.#options = options
  }

  /** This process's number in the table of processes, while its lease runs. */
  get processId(): number {
    return this.#processId
  }

  /** Whether new work may start. False from the moment the lease is certain to end, even if messages are still to come. */
  get valid(): boolean {
    return (
      !this.#ending &&
      monotonicMs() < this.#state.deadlineOf(this.#leases) - warningBefore(this.#options.lease)
    )
  }

  /** ms until the lease ends unless it is renewed; 0 if it has ended, or will. */
  get left(): number {
    return this.#ending ? 0 : Math.max(0, this.#state.deadlineOf(this.#leases) - monotonicMs())
  }

  /** Whether the membership `processId`, which has claimed something, is under the current lease, and that runs. */
  holds(processId: number): boolean {
    return processId >= this.#first && this.valid
  }

  /** How many handlers run. Handlers that ignore the end of the lease are killed with the process, if that is asked for. */
  set working(count: number) {
    this.#state.setWorking(count)
  }

  /** Starts the thread early, since it takes a while to start and to connect. */
  prepare(): void {
    this.#thread ??= this.#startThread()
  }

  /**
   * Starts a new membership: at the start, after a lease has ended, and when an answer to a claim was lost. What that claim
   * took is unknown here, and is freed once the former membership has retired. Starts the thread if none runs. Rejects if
   * the database is out of reach, or if the membership `joins` the lease that runs, and that ends.
   */
  async register(joins: boolean): Promise<void> {
    clearTimeout(this.#killing)
    const registering = promiseWithResolvers()
    this.#registering = registering
    this.prepare()
    this.#send({ kind: 'register', joins, now: monotonicMs() })
    await registering.promise
  }

  /** Removes a membership that no round belongs to any more. */
  retire(processId: number): void {
    this.#send({ kind: 'retire', processId })
  }

  async stop(): Promise<void> {
    clearTimeout(this.#killing)
    const thread = this.#thread
    if (!thread) return
    this.#thread = undefined
    const exited = new Promise((resolve) => thread.once('exit', resolve))
    thread.postMessage({ kind: 'stop' } satisfies LeaseCommand)
    await exited
  }

  #startThread(): Thread {
    const { config, schema, info, lease, killAtEnd } = this.#options
    const { numbers } = this.#state
    const leases = this.#leases
    const forIt = forThread(config)
    const channel = forIt.needs === 'nothing' ? undefined : new MessageChannel()
    if (channel) new LentSessions(config, channel.port1)
    const port = channel?.port2
    const workerData: LeaseThreadData = {
      ...forIt,
      port,
      schema,
      info,
      lease,
      killAtEnd,
      numbers,
      leases,
    }
    const thread = startThread('lease-thread', workerData, port ? [port] : [])
    let cause = new Error('the lease thread ended')
    thread.on('message', (message: LeaseMessage) => this.#hear(message))
    thread.on('error', (error) => {
      cause = error
    })
    thread.on('exit', () => this.#ended(thread, cause))
    return thread
  }

  /**
   * Without the thread, nothing renews the lease or kills handlers that run beyond its end. The next `register` starts
   * another one.
   */
  #ended(thread: Thread, cause: Error): void {
    if (this.#thread !== thread) return
    this.#thread = undefined
    this.#registering?.reject(cause)
    if (this.#processId === 0) return
    this.#options.onFailure(cause)
    const { lease, killAtEnd } = this.#options
    clearTimeout(this.#killing)
    if (killAtEnd) this.#killing = this.#state.killBeforeEnd(this.#leases, lease)
    this.#end()
  }

  #end(): void {
    if (this.#ending) return
    this.#ending = true
    this.#options.onEnding()
  }

  /** Where the system does not tell how much memory is in use, the lease is renewed without a report. */
  #report(): void {
    try {
      this.#send({ kind: 'report', report: this.#options.report() })
    } catch {}
  }

  #send(command: LeaseCommand): void {
    this.#thread?.postMessage(command)
  }

  #hear(message: LeaseMessage): void {
    if (message.kind === 'registered') {
      this.#processId = message.processId
      if (message.leases !== this.#leases) this.#first = message.processId
      this.#leases = message.leases
      // Not later: the next message may say that it ends.
      this.#ending = false
      this.#registering?.resolve()
    } else if (message.kind === 'failed') this.#registering?.reject(toLockstepError(errorOf(message)))
    else if (message.kind === 'renewed') this.#options.onRenewed(message.processId, message.duration)
    else if (message.kind === 'unrenewed') this.#options.onUnrenewed(toLockstepError(errorOf(message)))
    else if (message.kind === 'unreported') this.#options.onUnreported(toLockstepError(errorOf(message)))
    else if (message.kind === 'reporting') this.#report()
    else if (message.kind === 'requested') this.#options.onRequest(message.request)
    else if (message.kind === 'reconnected') this.#options.onReconnected()
    else this.#end()
  }
}

interface PromiseWithResolvers {
  readonly promise: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

/** `Promise.withResolvers` of later Node versions. */
function promiseWithResolvers(): PromiseWithResolvers {
  let resolve!: () => void
  let reject!: (error: unknown) => void
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
