import type { Logger } from '../../logger.ts'
import { Bell } from '../lifecycle/bell.ts'
import { Lease, type LeaseOptions } from './lease.ts'

const RETRY_PAUSE = 500

/** Keeps the row of a process for as long as rounds belong to it. */
export interface Retention {
  readonly processId: number
  /** So many of its rounds were settled, or lost. Default 1. */
  release(rounds?: number): void
}

/** Handlers that run. */
interface Handlers {
  /** Resolves when none is left. */
  none(): Promise<boolean>
}

/**
 * Who this process is in the table of processes, and which rounds belong to whom it was before.
 *
 * It registers anew when its lease has ended: once nothing of the old one runs here any more, since its
 * ids may be claimed again from then on, by this process too. And when the answer to a claim was lost: rows may
 * have been claimed that nobody here knows of. They come free when the former process, which keeps its lease
 * while its other rounds are in work, retires.
 */
export class Membership {
  readonly #lease: Lease
  readonly #handlers: Handlers
  readonly #logger: Logger
  readonly #onFailure: (error: unknown) => void
  readonly #rounds = new Map<number, number>()
  readonly #stopped = new Bell()
  #registering: Promise<void> | undefined
  #stopping = false

  constructor(options: Omit<LeaseOptions, 'onUnrenewed'>, handlers: Handlers, logger: Logger) {
    const onUnrenewed = (error: unknown) => this.#failed(error, 'the lease can’t be renewed: trying again')
    this.#lease = new Lease({ ...options, onUnrenewed })
    this.#onFailure = options.onFailure
    this.#handlers = handlers
    this.#logger = logger
  }

  get processId(): number {
    return this.#lease.processId
  }

  /** Whether work may be taken under it. */
  get valid(): boolean {
    return this.#registering === undefined && this.#lease.valid
  }

  /** Whether its lease runs. */
  get alive(): boolean {
    return this.#lease.valid
  }

  /** Whether the lease runs under which this process, as who it was then, has claimed. Cheap. */
  holds(processId: number): boolean {
    return this.#lease.holds(processId)
  }

  /** How many handlers run, for the lease thread. */
  set working(count: number) {
    this.#lease.working = count
  }

  /** So that `start` takes less time. */
  prepare(): void {
    this.#lease.prepare()
  }

  async start(): Promise<void> {
    await this.#lease.register()
  }

  /**
   * So many rounds were claimed by this process, as who it is or was then: until all are released, its row stays. A claim
   * counts as a round from before it is sent.
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

  /** Registers anew; resolves when it has. */
  reregister(): Promise<void> {
    this.#registering ??= this.#reregister().finally(() => {
      this.#registering = undefined
    })
    return this.#registering
  }

  /** The worker stops: it needs no other membership, and does not wait for a database that is away. */
  settleDown(): void {
    this.#stopping = true
    this.#stopped.ring()
  }

  /** Removes the process: what it still has claimed is free. */
  async stop(): Promise<void> {
    this.settleDown()
    await this.#registering
    if (this.processId > 0) this.#lease.retire(this.processId)
    await this.#lease.stop()
  }

  async #reregister(): Promise<void> {
    const former = this.processId
    while (!this.#stopping) {
      if (!this.#lease.valid) await Promise.race([this.#handlers.none(), this.#stopped.wait()])
      try {
        await this.#lease.register()
        break
      } catch (error) {
        this.#failed(error, 'the process can’t be registered: trying again')
        await this.#stopped.wait(RETRY_PAUSE)
      }
    }
    if ((this.#rounds.get(former) ?? 0) <= 0) this.#forget(former)
  }

  #failed(error: unknown, message: string): void {
    this.#logger.warn({ error: (error as Error).message }, message)
    this.#onFailure(error)
  }

  #forget(processId: number): void {
    this.#rounds.delete(processId)
    if (processId !== this.processId) this.#lease.retire(processId)
  }
}
