import type { Rate } from '../../src/limits.ts'
import { type Fates, type Finding, lastsUntil, type RunFinding } from './checker.ts'
import type { Run } from './handler-log.ts'

/** A claim of an id, by the server's clock, in ns. */
export interface Claimed {
  readonly id: string
  readonly at: bigint
}

/** Something that could begin `from` then on, and did `to` then, in ns. */
export interface Wait {
  readonly from: bigint
  readonly to: bigint
}

/** How long one waited while others had their turn. */
export interface PassedOver {
  readonly from: bigint
  /** s, from each of which at least one of the others has a begin. */
  readonly seconds: number
}

const SECOND = 1_000_000_000n

/**
 * A limit of concurrency: runs that began while `most` others were under way. A run lasts as long as for `overlaps`: a place is
 * held for as long as its id is, so whatever excuses the one excuses the other.
 */
export function crowds(runs: readonly Run[], most: number, fates: Fates = {}): RunFinding[] {
  const found: RunFinding[] = []
  let under: { run: Run; end: bigint }[] = []
  for (const run of runs.toSorted((a, b) => compare(a.begin, b.begin))) {
    under = under.filter(({ end }) => end > run.begin)
    if (under.length >= most) {
      const what = `began beside ${under.length} others, of at most ${most}`
      const { queue, id, begin } = run
      found.push({ queue, id, at: begin, what, runs: [run, ...under.map((one) => one.run)] })
    }
    under.push({ run, end: lastsUntil(run, fates) })
  }
  return found
}

/**
 * A limit of a rate: claims within the window of as many before. There is no tolerance: claims and windows are read from one
 * clock, and a start is never noted as earlier than the row says that it was claimed. Runs would not do: a claim may wait
 * for its slot, or for its process to be continued, and meet those of the next window.
 */
export function rushes(claims: readonly Claimed[], { jobs, per }: Rate): Finding[] {
  const sorted = claims.toSorted((a, b) => compare(a.at, b.at))
  return sorted.slice(jobs).flatMap((claim, place) => {
    const apart = Number(claim.at - sorted[place]!.at) / 1e9
    if (apart >= per) return []
    return [{ ...claim, what: `${jobs + 1} claims within ${apart} s, of at most ${jobs} in ${per} s` }]
  })
}

/**
 * The longest that one waited although others began. `waits` are those of its jobs, `turns` when any of its jobs began, and
 * `others` when those of others did. Only seconds count in which others began: while the server is down, no one is
 * passed over.
 */
export function passedOver(
  waits: readonly Wait[],
  turns: readonly bigint[],
  others: readonly bigint[],
): PassedOver {
  let longest: PassedOver = { from: 0n, seconds: 0 }
  const [own, foreign] = [turns.toSorted(compare), others.toSorted(compare)]
  for (const { from, to } of united(waits)) {
    const inside = own.slice(after(own, from), after(own, to))
    for (const [place, begin] of [from, ...inside].entries()) {
      const end = inside[place] ?? to
      if (end - begin < SECOND) continue
      const begins = foreign.slice(after(foreign, begin), after(foreign, end))
      const seconds = new Set(begins.map((at) => (at - begin) / SECOND)).size
      if (seconds > longest.seconds) longest = { from: begin, seconds }
    }
  }
  return longest
}

/** Times in which something waits all the time. */
function united(waits: readonly Wait[]): Wait[] {
  const all: { from: bigint; to: bigint }[] = []
  for (const { from, to } of waits.toSorted((a, b) => compare(a.from, b.from))) {
    const last = all.at(-1)
    if (!last || last.to < from) all.push({ from, to })
    else if (to > last.to) last.to = to
  }
  return all
}

/** The place of the first time after `at`. */
function after(sorted: readonly bigint[], at: bigint): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! <= at) low = middle + 1
    else high = middle
  }
  return low
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}
