import type { Round } from '../../store/claim.ts'

/** Performs a batch of prefetched jobs. Resolves to false if there are none that the slot may take. */
export type PerformOther = () => Promise<boolean>

/** Hears what a slot has taken, before it is performed. Not called if there is nothing to take. */
export type OnTaken = (rounds: readonly Round[]) => void

interface Wait {
  readonly performOther: PerformOther
  performing: Promise<void> | undefined
}

/**
 * The slots that wait for claims. While all slots do, nobody begins what other claims have brought, and it would be released
 * and claimed again. So a slot that waits performs such jobs meanwhile.
 */
export class WaitingSlots {
  readonly #waits = new Map<number, Wait>()

  begin(slot: number, performOther: PerformOther): void {
    this.#waits.set(slot, { performOther, performing: undefined })
  }

  isPerforming(slot: number): boolean {
    return this.#waits.get(slot)?.performing !== undefined
  }

  /** Its claim has ended. Returns a promise of the end of the batch that it performs, if it does. */
  end(slot: number): Promise<void> | undefined {
    const wait = this.#waits.get(slot)
    this.#waits.delete(slot)
    return wait?.performing
  }

  /** Has a slot perform prefetched jobs until none is left or its claim has ended: `only` that slot, or any that waits. */
  wake(only?: number): void {
    for (const [slot, wait] of this.#waits) {
      if (wait.performing || (only ?? slot) !== slot) continue
      wait.performing = this.#perform(slot, wait)
      return
    }
  }

  async #perform(slot: number, wait: Wait): Promise<void> {
    while (this.#waits.get(slot) === wait && (await wait.performOther()));
    wait.performing = undefined
  }
}
