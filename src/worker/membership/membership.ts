import type { Logger } from '../../logger.ts'
import type { ProcessRequest, ProcessSight } from '../../store/process.ts'
import { Bell } from '../lifecycle/bell.ts'
import { Lease, type LeaseOptions } from './lease.ts'

const RETRY_PAUSE = 500

/** Keeps the row of a process as long as rounds belong to it. */
export interface Retention {
  readonly processId: number
  /** This many of its rounds were settled, or lost. Default 1. */
  release(rounds?: number): void
}

/** Without what the membership tells itself. */
export type UntoldLeaseOptions = Omit<LeaseOptions, 'onUnrenewed' | 'onUnreported'>

/** The handlers that run. */
interface Handlers {
  /** Resolves when none is left. */
  none(): Promise<boolean>
}

/**
 * This process's number in the table of processes, and which rounds belong to its former numbers.
 *
 * The process registers again when its lease has ended, but only once nothing of the old one runs here any more: from then
 * on its ids may be claimed again, by this process too. It also registers again when the answer to a claim was lost: rows
 * may have been claimed that are unknown here. They are freed when the former membership retires. Until then, that keeps
 * its lease while its other rounds are in progress.
 */
export class Membership {
  readonly #lease: Lease
  readonly #handlers: Handlers
  readonly #logger: Logger
  readonly #onRequest: (request: ProcessRequest) => void
  readonly #onFailure: (error: unknown) => void
  readonly #rounds = new Map<number, number>()
  readonly #stopped = new Bell()
  #registering: Promise<void> | undefined
  #stopping = false

  constructor(options: UntoldLeaseOptions, handlers: Handlers, logger: Logger) {
    const onUnrenewed = (error: unknown) => this.#failed(error, 'the lease can’t be renewed: trying again')
    const onUnreported = (error: unknown) => this.#failed(error, 'what this process does can’t be stored')
    const onEnding = () => {
      this.#warnOfEnd()
      options.onEnding()
    }
    this.#lease = new Lease({ ...options, onEnding, onUnrenewed, onUnreported })
    this.#onRequest = options.onRequest
    this.#onFailure = options.onFailure
    this.#handlers = handlers
    this.#logger = logger
  }

  get processId(): number {
    return this.#lease.processId
  }

  /** Whether work may be taken under this membership. */
  get valid(): boolean {
    return this.#registering === undefined && this.#lease.valid
  }

  /** Whether the lease runs. */
  get alive(): boolean {
    return this.#lease.valid
  }

  /** ms until the lease ends unless it is renewed; 0 if it has ended, or will. */
  get left(): number {
    return this.#lease.left
  }

  /** Whether this is the current membership, or a former one that rounds still belong to. */
  owns(processId: number): boolean {
    return processId === this.processId || this.#rounds.has(processId)
  }

  /** Whether the lease runs under which the membership `processId` has claimed. Cheap. */
  holds(processId: number): boolean {
    return this.#lease.holds(processId)
  }

  /** Passes on what was asked of this process, also of a former membership. */
  heed(processes: readonly ProcessSight[]): void {
    for (const { processId, request } of processes)
      if (request && this.owns(processId)) this.#onRequest(request)
  }

  /** How many handlers run, for the lease thread. */
  set working(count: number) {
    this.#lease.working = count
  }

  /** Lets `start` take less time. */
  prepare(): void {
    this.#lease.prepare()
  }

  async start(): Promise<void> {
    await this.#lease.register(false)
  }

  /**
   * `rounds` rounds were claimed by this process, under its current or a former number: its row stays until all are
   * released. A claim counts as a round from before it is sent.
   */
  retain(rounds = 1, processId = this.processId): Retention {
    this.#rounds.set(processId, (this.#rounds.get(processId) ?? 0) + rounds)
    return { processId, release: (ended = 1) => this.#release(processId, ended) }
  }

  #release(processId: number, rounds: number): void {
    const left = (this.#rounds.get(processId) ?? 0) - rounds
    this.#rounds.set(processId, left)
    if (left <= 0) this.#forget(processId)
  }

  /** Registers again. Resolves when that is done. */
  reregister(): Promise<void> {
    this.#registering ??= this.#reregister().finally(() => {
      this.#registering = undefined
    })
    return this.#registering
  }

  /** The worker stops: it needs no other membership, and does not wait for a database that is out of reach. */
  settleDown(): void {
    this.#stopping = true
    this.#stopped.ring()
  }

  /** Removes the process, which frees what it still has claimed. */
  async stop(): Promise<void> {
    this.settleDown()
    await this.#registering
    if (this.processId > 0) this.#lease.retire(this.processId)
    await this.#lease.stop()
  }

  async #reregister(): Promise<void> {
    while (!this.#stopping) {
      const former = this.processId
      // Asked once: if the process is stopped here until its lease has ended, handlers of that lease may still run.
      const joins = this.#lease.valid
      if (!joins) await Promise.race([this.#handlers.none(), this.#stopped.wait()])
      if (this.#stopping) break
      try {
        await this.#lease.register(joins)
        if ((this.#rounds.get(former) ?? 0) <= 0) this.#forget(former)
        if (this.#lease.valid) break
      } catch (error) {
        this.#failed(error, 'the process can’t be registered: trying again')
      }
      await this.#stopped.wait(RETRY_PAUSE)
    }
  }

  #warnOfEnd(): void {
    const fields = { event: 'leaseEnding', processId: this.processId }
    this.#logger.warn(fields, 'the lease could not be renewed: aborting what runs')
  }

  #failed(error: unknown, message: string): void {
    this.#logger.warn({ event: 'lease', error: (error as Error).message }, message)
    this.#onFailure(error)
  }

  #forget(processId: number): void {
    this.#rounds.delete(processId)
    if (processId !== this.processId) this.#lease.retire(processId)
  }
}
