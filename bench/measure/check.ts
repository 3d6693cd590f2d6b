import type { Ordering, Update, Watcher } from '../contender.ts'
import { Finish } from './finish.ts'

/**
 * Watches what handlers get: how many updates are done, whether any is done twice, and whether those of a key come one
 * after the other in order.
 */
export class Check implements Watcher {
  readonly #ordering: Ordering
  readonly #target: number
  readonly #onStart: ((update: Update) => void) | undefined
  readonly #keys = new Map<string, Key>()
  readonly finish = new Finish()
  done = 0
  repeated = 0
  /** Updates that began after a later one of their key, or while another handler had one. */
  outOfOrder = 0

  /** The check is finished when `target` updates are done. */
  constructor(ordering: Ordering, target: number, onStart?: (update: Update) => void) {
    this.#ordering = ordering
    this.#target = target
    this.#onStart = onStart
  }

  starts(updates: readonly Update[]): void {
    for (const update of updates) {
      this.#onStart?.(update)
      const key = this.#keyOf(update)
      if (key.begun.has(update.seq)) this.repeated += 1
      else if (this.#ordering === 'per key' && !mayFollow(key, update, updates)) this.outOfOrder += 1
      key.begun.add(update.seq)
      key.last = Math.max(key.last, update.seq)
      key.holder = updates
    }
  }

  ends(updates: readonly Update[]): void {
    for (const update of updates) {
      const key = this.#keyOf(update)
      if (key.holder === updates) key.holder = undefined
    }
    this.done += updates.length
    if (this.done >= this.#target) this.finish.reach()
  }

  #keyOf({ key }: Update): Key {
    let found = this.#keys.get(key)
    if (!found) {
      found = { begun: new Set(), last: -1, holder: undefined }
      this.#keys.set(key, found)
    }
    return found
  }
}

interface Key {
  readonly begun: Set<number>
  last: number
  /** The updates of the handler that has one of this key in progress. */
  holder: readonly Update[] | undefined
}

function mayFollow({ last, holder }: Key, { seq }: Update, updates: readonly Update[]): boolean {
  return seq > last && (holder === undefined || holder === updates)
}
