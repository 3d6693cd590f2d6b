/** A point of a schedule where somebody had to go on: who could, who did, and who had gone just before. */
export interface Decision {
  readonly able: readonly number[]
  readonly taken: number
  readonly before: number | undefined
}

/** Plays a schedule that begins as told, and then switches no more than it has to. */
export type Play<T> = (
  beginning: readonly number[],
  claimer: number,
) => Promise<T & { decisions: Decision[] }>

export interface Bounds {
  /** How often a session may be interrupted that could have gone on. */
  readonly switches: number
  /** How many schedules are enough: of those with two switches and more, some then, evenly spread. */
  readonly schedules: number
  /** How many are played at the same time. */
  readonly claimers: number
}

/**
 * Plays every schedule of several sessions, each exactly once, by the number of switches: the first ones have none,
 * in them one session goes after the other. Who is blocked can't go on, so a schedule that could not happen is
 * never tried. What goes wrong between sessions mostly does with one switch or two.
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

/** Those that begin as told, those of them that branch off without a switch, and where the others begin. */
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

/** Where another could have gone on instead, after the point up to which the way was told. */
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
