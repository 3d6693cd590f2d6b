import type { Candidate } from './scheduler.ts'

/** A lane of a queue, in all of its shards that have something due there. They are equivalent. */
export interface Group extends Pick<Candidate, 'queue' | 'lane' | 'tenantLane'> {
  /** Of any of them. */
  isBegun: boolean
}

/** Whether the candidate is one of the group. */
export function isOf(candidate: Candidate, { queue, lane, tenantLane }: Group): boolean {
  return candidate.queue === queue && candidate.lane === lane && candidate.tenantLane === tenantLane
}

/** The groups of the candidates, in the order in which they come first. A slot may have thousands of candidates. */
export function groupsOf(candidates: readonly Candidate[]): readonly Group[] {
  const groups = new Groups()
  for (const candidate of candidates) groups.add(candidate)
  return groups.all
}

class Groups {
  readonly all: Group[] = []
  /** By queue, then by lane. Lanes of tenants are below 0. */
  readonly #places = new Map<string, Map<number, number>>()
  /** Of the last one. */
  #place = 0

  add(candidate: Candidate): void {
    this.#find(candidate)
    if (candidate.isBegun) this.all[this.#place]!.isBegun = true
  }

  #find(candidate: Candidate): void {
    if (this.#isAt(this.#place, candidate)) return
    // Shards mostly have the same lanes, in the same order, and looking up a place is slow.
    if (this.#isAt(this.#place + 1, candidate)) this.#place += 1
    else this.#place = this.#placeOf(candidate)
  }

  #isAt(place: number, candidate: Candidate): boolean {
    const group = this.all[place]
    return group !== undefined && isOf(candidate, group)
  }

  #placeOf({ queue, lane, tenantLane }: Candidate): number {
    const places = this.#places.get(queue) ?? new Map<number, number>()
    const known = places.get(tenantLane ?? lane)
    if (known !== undefined) return known
    this.#places.set(queue, places.set(tenantLane ?? lane, this.all.length))
    return this.all.push({ queue, lane, tenantLane, isBegun: false }) - 1
  }
}
