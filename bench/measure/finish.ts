import { setTimeout as sleep } from 'node:timers/promises'

/** The moment when everything is done. */
export class Finish {
  /** Call this when the moment has come. */
  reach!: () => void
  readonly reached = new Promise<void>((resolve) => {
    this.reach = resolve
  })

  /** Resolves when the moment has come, or after `ms`. */
  async within(ms: number): Promise<void> {
    await Promise.race([this.reached, sleep(ms, undefined, { ref: false })])
  }
}
