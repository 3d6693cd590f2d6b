import type { Database } from '../../postgres/database.ts'
import { sift } from '../../store/sift.ts'
import type { Lane } from '../schedule/lane.ts'
import type { Timetable } from '../schedule/timetable.ts'

/** Jobs to look at in one call, and lanes, and tenants and jobs that are known: some ms for the server. */
const MOST_JOBS = 5_000
const MOST_LANES = 50
/** Steps of a thousand jobs that lanes have passed, done or not, in one call: some ms. */
const MOST_STEPS = 5
const MOST_KNOWN = 5_000

export interface SifterOptions {
  readonly database: Database
  readonly timetable: Timetable
  processId(): number
}

/**
 * A part of the full look: finds what was committed late behind jobs that limits keep waiting (see Withholding). The lanes that
 * have waited longest are first. What one look leaves is left to the next one.
 */
export class Sifter {
  readonly #options: SifterOptions
  /** By lane, when it was sifted, in ms of the monotonic clock. */
  readonly #siftedAt = new WeakMap<Lane, number>()

  constructor(options: SifterOptions) {
    this.#options = options
  }

  /** Takes about `budget` ms, or one call. */
  async run(budget: number): Promise<void> {
    const startedAt = performance.now()
    let left = this.#lanes()
    while (left.length > 0) {
      left = [...(await this.#sift(left)), ...left.slice(MOST_LANES)]
      if (performance.now() - startedAt >= budget) return
    }
  }

  #lanes(): Lane[] {
    const lanes = [...this.#options.timetable.queues].flatMap(({ withheldLanes }) => withheldLanes.held)
    return lanes.sort((a, b) => (this.#siftedAt.get(a) ?? 0) - (this.#siftedAt.get(b) ?? 0))
  }

  /** The first lanes. Returns those of which something is left. */
  async #sift(lanes: readonly Lane[]): Promise<Lane[]> {
    const { database, timetable, processId } = this.#options
    const parts = partsOf(lanes.slice(0, MOST_LANES))
    if (parts.length === 0) return []
    const most = Math.ceil(MOST_JOBS / parts.length)
    const results = await sift(database, processId(), parts, most)
    return parts.flatMap((part, index) => {
      const { lane } = part
      const { found, to } = results[index]!
      const rest = to ?? (part.isLast ? undefined : part.to)
      this.#siftedAt.set(lane, performance.now())
      lane.sifted(found, rest)
      if (found.length > 0) timetable.file(lane)
      return rest ? [lane] : []
    })
  }
}

/** Leaves out lanes that have nothing to sift, and those for which there is too much to tell. */
function partsOf(lanes: readonly Lane[]) {
  const steps = Math.max(1, Math.floor(MOST_STEPS / lanes.length))
  let known = 0
  return lanes.flatMap((lane) => {
    const region = known < MOST_KNOWN ? lane.region(steps) : undefined
    for (const { jobs } of region?.held.values() ?? []) known += jobs.length + 1
    return region ? [{ lane, key: lane.key, ...region }] : []
  })
}
