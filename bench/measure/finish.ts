import { setTimeout as sleep } from 'node:timers/promises'

/** The moment at which all is done that was to be. */
export class Finish {
  /** Says that it has come. */
  reach!: () => void
  readonly reached = new Promise<void>((resolve) => {
    this.reach = resolve
  })

  /** Resolves when it has come, or after so many ms. */
  async within(ms: number): Promise<void> {
    await Promise.race([this.reached, sleep(ms, undefined, { ref: false })])
  }
}
