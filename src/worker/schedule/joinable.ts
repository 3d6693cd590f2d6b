import type { Lane } from './lane.ts'

/** The lanes of one number in all shards of a queue. */
export class Peers {
  /** How many of them are due. */
  due = 0
  /** Those whose claim further slots may wait for. */
  readonly awaited = new Set<Lane>()
}

/**
 * Lanes that are being claimed, and whose claims further slots may wait for, since none of their peers is due. Without them,
 * a scheduler would give the turns of a queue to others whenever slots become free while its lanes are being claimed.
 */
export class Joinable {
  readonly #groups = new Set<Peers>()

  /** Whether there are none. */
  get isEmpty(): boolean {
    return this.#groups.size === 0
  }

  *lanes(): Iterable<Lane> {
    for (const { awaited } of this.#groups) yield* awaited
  }

  /** The timetable lists the lane as due. */
  listed({ peers }: Lane): void {
    peers.due += 1
    this.#groups.delete(peers)
  }

  /** The timetable no longer lists the lane as due. */
  struck({ peers }: Lane): void {
    peers.due -= 1
    if (peers.due === 0 && peers.awaited.size > 0) this.#groups.add(peers)
  }

  /** The lane has changed. `isAdmitted`: whether slots may take from it at all. */
  see(lane: Lane, isAdmitted: boolean): void {
    const { peers } = lane
    if (isAdmitted && lane.mayBeJoined) {
      peers.awaited.add(lane)
      if (peers.due === 0) this.#groups.add(peers)
    } else if (peers.awaited.delete(lane) && peers.awaited.size === 0) this.#groups.delete(peers)
  }
}
