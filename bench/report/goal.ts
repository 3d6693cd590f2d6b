import { LOCKSTEP } from '../entrants.ts'
import type { Line, Summary } from './summary.ts'
import { format } from './table.ts'

/** An aim. The figures are undefined if the run did not measure it. */
export interface Goal {
  readonly title: string
  readonly goal: string
  reached(summary: Summary): Verdict | undefined
}

export interface Verdict {
  readonly reached: boolean
  readonly figures: string
}

export const value = (line: Line) => line.value
/** The value of a case that measures many times. */
export const p50 = value
export const p99 = (line: Line) => line.p99!

export interface Pair {
  readonly ours: number
  readonly theirs: number
  readonly whose: string
}

/** Our line and the best of the others. */
export function rates(
  summary: Summary,
  caseName: string,
  configuration: Line['configuration'],
  names: readonly Line['name'][],
): Pair | undefined {
  const others = names.flatMap((name) => summary.find(caseName, name, configuration) ?? [])
  const best = others.toSorted((a, b) => b.value - a.value)[0]
  return ours(summary.find(caseName, LOCKSTEP, configuration), best)
}

/** Undefined unless both were measured. */
export function ours(own: Line | undefined, other: Line | undefined): Pair | undefined {
  return own && other && { ours: own.value, theirs: other.value, whose: other.name }
}

/** Our figure as a share of the others'. */
function share(
  title: string,
  goal: string,
  of: (summary: Summary) => Pair | undefined,
  reaches: (share: number) => boolean,
): Goal {
  return {
    title,
    goal,
    reached(summary) {
      const pair = of(summary)
      if (!pair) return undefined
      const { ours, theirs, whose } = pair
      const whom = whose === LOCKSTEP ? '' : ` of ${whose}`
      return {
        reached: reaches(ours / theirs),
        figures: `${format(ours / theirs)} × (${format(ours)} to ${format(theirs)}${whom})`,
      }
    },
  }
}

/** At least this share of the others' rate. */
export function atLeast(
  title: string,
  times: number,
  whom: string,
  of: (summary: Summary) => Pair | undefined,
): Goal {
  return share(title, `${times} × the ${whom}`, of, (share) => share >= times)
}

/** At most this many times the others' ms. */
export function atMost(
  title: string,
  times: number,
  whom: string,
  of: (summary: Summary) => Pair | undefined,
): Goal {
  return share(title, `at most ${times} × the ${whom}`, of, (share) => share <= times)
}

/** A rate in the best configuration. */
export function above(title: string, rate: number, caseName: string): Goal {
  return {
    title,
    goal: `above ${format(rate)}/s`,
    reached(summary) {
      const line = summary.find(caseName, LOCKSTEP, 'best')
      return line && { reached: line.value > rate, figures: `${format(line.value)}/s` }
    },
  }
}

/** The worst of all configurations. */
export function below(
  title: string,
  what: string,
  limit: number,
  caseName: string,
  pick: (line: Line) => number,
): Goal {
  return {
    title,
    goal: `${what} below ${limit.toLocaleString('en')}`,
    reached(summary) {
      const figures = summary.lines
        .filter(({ name, benchCase }) => name === LOCKSTEP && benchCase.name === caseName)
        .map(pick)
      if (figures.length === 0) return undefined
      return { reached: Math.max(...figures) < limit, figures: format(Math.max(...figures)) }
    },
  }
}

/** Our figure in one case, as a share of that in another. */
export function ratio(
  title: string,
  goal: string,
  [caseName, base]: readonly [caseName: string, base: string],
  reaches: (share: number) => boolean,
): Goal {
  const of = (summary: Summary) => ours(summary.find(caseName, LOCKSTEP), summary.find(base, LOCKSTEP))
  return share(title, goal, of, reaches)
}
