import type { Service } from './service.ts'

/** ms between looks: longer blocks can't be missed, and each look wakes an idle process. */
const LOOK_EVERY = 250
/** ms that a delay is remembered, and up to twice as long. */
const WINDOW = 5_000

/** Measures how late this process's event loop runs its timers. Keeps no process alive. */
export class EventLoop implements Service {
  #timer: NodeJS.Timeout | undefined
  #due = 0
  #windowEnds = 0
  /** The longest delays of this window and of the one before. */
  #longest = 0
  #former = 0

  async start(): Promise<void> {
    const now = performance.now()
    this.#due = now + LOOK_EVERY
    this.#windowEnds = now + WINDOW
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY)
    this.#timer.unref()
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** ms: the longest delay of the last five to ten seconds, including one that has just ended; 0 if it isn't measured. */
  get delay(): number {
    const late = this.#timer ? performance.now() - this.#due : 0
    return Math.round(Math.max(this.#former, this.#longest, late))
  }

  #look(): void {
    const now = performance.now()
    this.#longest = Math.max(this.#longest, now - this.#due)
    this.#due = now + LOOK_EVERY
    if (now < this.#windowEnds) return
    this.#former = this.#longest
    this.#longest = 0
    this.#windowEnds = now + WINDOW
  }
}
