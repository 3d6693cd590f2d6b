import type { Logger } from '../../logger.ts'
import { Bell } from './bell.ts'

/** What a worker is made of: every part starts and stops the same way. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** A loop that runs until it is told to stop; a pass that waits does so on the `alarm`, which stopping rings. */
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

/** Fails with the first in the list that failed, but not before all have ended: what still starts can't be stopped. */
export async function together(all: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(all)) if (result.status === 'rejected') throw result.reason
}

/** Those that there are. One that fails does not keep the others from it. */
export async function stopAll(services: readonly (Service | undefined)[], logger: Logger): Promise<void> {
  for (const result of await Promise.allSettled(services.map((service) => service?.stop())))
    if (result.status === 'rejected') logger.warn({ error: result.reason.message }, 'stopping failed')
}
