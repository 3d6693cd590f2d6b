import type { Bell } from '../lifecycle/bell.ts'

/** The slots that sleep since nothing was due that they could take, the longest sleep first. */
export class Sleepers {
  readonly #bells = new Map<number, Bell>()

  get size(): number {
    return this.#bells.size
  }

  has(slot: number): boolean {
    return this.#bells.has(slot)
  }

  /** Until `bell` rings, or for `pause` ms. */
  async sleep(slot: number, bell: Bell, pause?: number): Promise<void> {
    this.#bells.set(slot, bell)
    await bell.wait(pause)
    this.#bells.delete(slot)
  }

  /** Wakes this slot if it sleeps; without one, whichever does. The next call wakes another one. */
  wake(slot: number | undefined): void {
    const [first] = this.#bells.keys()
    const chosen = slot ?? first
    if (chosen === undefined) return
    this.#bells.get(chosen)?.ring()
    this.#bells.delete(chosen)
  }

  wakeAll(): void {
    for (const bell of this.#bells.values()) bell.ring()
  }
}
