import type { Candidate } from './scheduler.ts'

/** A lane of a queue, in all of its shards that have something due there. They are equivalent. */
export interface Group {
  readonly queue: string
  readonly lane: number
}

/** The groups of the candidates, in the order in which they come first. A slot may have thousands of candidates. */
export function groupsOf(candidates: readonly Candidate[]): readonly Group[] {
  const groups = new Groups()
  for (const { queue, lane } of candidates) groups.add(queue, lane)
  return groups.all
}

class Groups {
  readonly all: Group[] = []
  readonly #places = new Map<string, Map<number, number>>()
  /** Of the last one. */
  #place = 0

  add(queue: string, lane: number): void {
    if (this.#isAt(this.#place, queue, lane)) return
    // Shards mostly have the same lanes, in the same order, and looking up a place is slow.
    if (this.#isAt(this.#place + 1, queue, lane)) this.#place += 1
    else this.#place = this.#placeOf(queue, lane)
  }

  #isAt(place: number, queue: string, lane: number): boolean {
    const group = this.all[place]
    return group?.lane === lane && group.queue === queue
  }

  #placeOf(queue: string, lane: number): number {
    const places = this.#places.get(queue) ?? new Map<number, number>()
    const known = places.get(lane)
    if (known !== undefined) return known
    this.#places.set(queue, places.set(lane, this.all.length))
    return this.all.push({ queue, lane }) - 1
  }
}
