import type { Logger } from '../../logger.ts'
import { Bell } from './bell.ts'

/** A part of a worker. All parts start and stop the same way. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** A loop that runs until it is stopped. A pass waits on the `alarm`, which `stop` rings, and handles its errors itself. */
export class Loop implements Service {
  readonly alarm: Bell
  #stopping = false
  #done: Promise<void> | undefined
  readonly #pass: () => Promise<void>

  constructor(pass: () => Promise<void>, alarm = new Bell()) {
    this.#pass = pass
    this.alarm = alarm
  }

  get stopping(): boolean {
    return this.#stopping
  }

  async start(): Promise<void> {
    this.#stopping = false
    this.#done = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.alarm.ring()
    await this.#done
  }

  async #run(): Promise<void> {
    while (!this.#stopping) await this.#pass()
  }
}

/**
 * Waits until all have ended, then throws the error of the first in the list that failed: what is still starting can't be
 * stopped.
 */
export async function together(all: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(all)) if (result.status === 'rejected') throw result.reason
}

/** Stops all services that exist. One that fails does not keep the others from stopping. */
export async function stopAll(services: readonly (Service | undefined)[], logger: Logger): Promise<void> {
  for (const result of await Promise.allSettled(services.map((service) => service?.stop())))
    if (result.status === 'rejected') logger.warn({ error: result.reason.message }, 'stopping failed')
}
