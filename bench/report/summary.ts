import { readFile } from 'node:fs/promises'
import type { Case, Fairness } from '../case.ts'
import { cases } from '../cases.ts'
import { type Entrant, LOCKSTEP } from '../entrants.ts'
import { median } from '../measure/percentile.ts'
import type { Run } from '../run.ts'

/** The repeats of one contender in one case: medians of all figures. */
export interface Line extends Entrant {
  readonly benchCase: Case
  readonly told: string
  readonly repeats: number
  readonly value: number
  readonly lowest: number
  readonly highest: number
  /** Our value in the same configuration, if there is one, divided by this. */
  readonly ratio: number | undefined
  readonly p95: number | undefined
  readonly p99: number | undefined
  readonly commits: number | undefined
  readonly walBytes: number | undefined
  readonly nodeCpu: number | undefined
  readonly serverCpu: number | undefined
  /** In all repeats; undefined if the case does not check order. */
  readonly outOfOrder: number | undefined
  readonly undone: number
  /** Per worker process. */
  readonly connections: number | undefined
  /** Of each repeat, if the case measures it. */
  readonly fairness: readonly Fairness[]
}

/** Reads a file that `--out` has written. */
export async function readRuns(file: string): Promise<Run[]> {
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Run)
}

export class Summary {
  readonly lines: readonly Line[]

  constructor(runs: readonly Run[]) {
    this.lines = cases.flatMap((benchCase) =>
      benchCase.entrants.flatMap((entrant) => {
        const own = runs.filter((run) => run.case === benchCase.name && isOf(run, entrant))
        const ours = runs.filter(
          (run) => run.case === benchCase.name && isOf(run, { ...entrant, name: LOCKSTEP }),
        )
        return own.length > 0 ? [lineOf(benchCase, entrant, own, ours)] : []
      }),
    )
  }

  /** The only line of a contender in a case, or that of a configuration. */
  find(caseName: string, name: Entrant['name'], configuration?: Entrant['configuration']): Line | undefined {
    return this.lines.find(
      (line) =>
        line.benchCase.name === caseName &&
        line.name === name &&
        (configuration === undefined || line.configuration === configuration),
    )
  }
}

function isOf(a: Entrant, b: Entrant): boolean {
  return a.name === b.name && a.configuration === b.configuration
}

function lineOf(benchCase: Case, entrant: Entrant, runs: readonly Run[], ours: readonly Run[]): Line {
  const values = runs.map(({ value }) => value)
  const value = median(values)
  const of = (pick: (run: Run) => number | null | undefined) => {
    const found = runs.map(pick).filter((figure) => figure !== undefined && figure !== null)
    return found.length > 0 ? median(found) : undefined
  }
  return {
    ...entrant,
    benchCase,
    told: runs[0]!.told,
    repeats: runs.length,
    value,
    lowest: Math.min(...values),
    highest: Math.max(...values),
    ratio: ours.length > 0 ? median(ours.map((run) => run.value)) / value : undefined,
    p95: of(({ p95 }) => p95),
    p99: of(({ p99 }) => p99),
    commits: of(({ cost }) => cost?.commits),
    walBytes: of(({ cost }) => cost?.walBytes),
    nodeCpu: of(({ cost }) => cost?.nodeCpu),
    serverCpu: of(({ cost }) => cost?.serverCpu),
    outOfOrder: sumOf(runs.flatMap((run) => run.outOfOrder ?? [])),
    connections: of(({ connections }) => connections),
    fairness: runs.flatMap(({ fairness }) => fairness ?? []),
    undone: Math.max(...runs.map((run) => run.undone ?? 0)),
  }
}

function sumOf(counts: readonly number[]): number | undefined {
  return counts.length > 0 ? counts.reduce((sum, count) => sum + count, 0) : undefined
}
