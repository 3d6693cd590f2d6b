/**
 * A point of a schedule at which a session had to go on: those that could, the one that did, and the one that had taken
 * the step before.
 */
export interface Decision {
  readonly able: readonly number[]
  readonly taken: number
  readonly before: number | undefined
}

/** Plays a schedule with the given beginning. After that, it switches only when it has to. */
export type Play<T> = (
  beginning: readonly number[],
  claimer: number,
) => Promise<T & { decisions: Decision[] }>

export interface Bounds {
  /** How often a session that could have gone on may be interrupted. */
  readonly switches: number
  /** The most schedules to play. If there are more with two or more switches, some of them are played, evenly spread. */
  readonly schedules: number
  /** How many schedules are played at the same time. */
  readonly claimers: number
}

/**
 * Plays every schedule of several sessions exactly once, in order of the number of switches. The first ones have no
 * switch: one session goes after the other. A blocked session can't go on, so impossible schedules are never tried.
 * Most mistakes between sessions show with one or two switches.
 */
export async function explore<T>(play: Play<T>, bounds: Bounds): Promise<T[][]> {
  let todo: number[][] = [[]]
  let left = bounds.schedules
  const played: T[][] = []
  for (let switches = 0; switches <= bounds.switches && todo.length > 0; switches += 1) {
    const [done, next] = await playAll(play, switches > 1 ? spread(todo, left) : todo, bounds.claimers)
    played.push(done)
    left = Math.max(left - done.length, 0)
    todo = next
  }
  return played
}

/**
 * Plays the schedules with these beginnings, and those that branch off from them without a switch. Returns them, and
 * the beginnings of those that branch off with a switch.
 */
async function playAll<T>(play: Play<T>, todo: number[][], claimers: number): Promise<[T[], number[][]]> {
  const done: T[] = []
  const next: number[][] = []
  const playOn = async (claimer: number) => {
    for (let beginning = todo.shift(); beginning; beginning = todo.shift()) {
      const way = await play(beginning, claimer)
      done.push(way)
      for (const { interrupts, turned } of turnings(way.decisions, beginning.length))
        (interrupts ? next : todo).push(turned)
    }
  }
  await Promise.all(Array.from({ length: claimers }, (_, claimer) => playOn(claimer)))
  return [done, next]
}

interface Turning {
  readonly interrupts: boolean
  readonly turned: number[]
}

/** The points after the given beginning at which another session could have gone on instead. */
function* turnings(decisions: readonly Decision[], told: number): Generator<Turning> {
  const way = decisions.map(({ taken }) => taken)
  for (const [place, { able, taken, before }] of decisions.entries()) {
    if (place < told) continue
    const interrupts = before !== undefined && able.includes(before)
    for (const other of able)
      if (other !== taken) yield { interrupts, turned: [...way.slice(0, place), other] }
  }
}

function spread<T>(all: readonly T[], most: number): T[] {
  return all.length <= most ? [...all] : all.filter((_, i) => (i * most) % all.length < most)
}
