/** What a worker is made of: every part starts and stops the same way. */
export interface Service {
  start(): Promise<void>
  stop(): Promise<void>
}

/** A loop that runs until it is told to stop; `pass` awaits whatever it wants to wait for. */
export class Loop implements Service {
  #stopping = false
  #done: Promise<void> | undefined
  readonly #pass: () => Promise<void>
  readonly #onStop: () => void

  constructor(pass: () => Promise<void>, onStop: () => void) {
    this.#pass = pass
    this.#onStop = onStop
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
    this.#onStop()
    await this.#done
  }

  async #run(): Promise<void> {
    while (!this.#stopping) await this.#pass()
  }
}
