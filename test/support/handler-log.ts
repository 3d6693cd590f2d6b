import { appendFileSync, existsSync, readFileSync } from 'node:fs'

/** When a handler began or ended a round of one id, in ns of the clock that all processes of a machine share. */
export interface Entry {
  readonly kind: 'begin' | 'end'
  readonly at: bigint
  /** The worker process, and the handler run in it. */
  readonly process: string
  readonly run: number
  readonly id: string
  readonly payloads: readonly unknown[]
  /** Of an end: whether the handler returned. */
  readonly returned: boolean
}

/** One round of one id: `end` is undefined where its process died first. */
export interface Run {
  readonly id: string
  readonly process: string
  readonly payloads: readonly unknown[]
  readonly begin: bigint
  readonly end: bigint | undefined
  readonly returned: boolean
}

export function now(): bigint {
  return process.hrtime.bigint()
}

/** Adds entries in one write, so that lines of several processes never mix. */
export function append(file: string, entries: readonly Entry[]): void {
  const lines = entries.map((entry) => `${JSON.stringify({ ...entry, at: String(entry.at) })}\n`)
  appendFileSync(file, lines.join(''))
}

export function read(file: string): Entry[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => {
    const entry = JSON.parse(line)
    return { ...entry, at: BigInt(entry.at) }
  })
}

/** Begins and ends put together, in the order of their begins. */
export function runsOf(entries: readonly Entry[]): Run[] {
  const key = ({ process, run, id }: Entry) => `${process} ${run} ${id}`
  const ends = new Map(entries.filter(({ kind }) => kind === 'end').map((entry) => [key(entry), entry]))
  return entries
    .filter(({ kind }) => kind === 'begin')
    .map((entry) => {
      const { id, process, payloads, at } = entry
      const end = ends.get(key(entry))
      return { id, process, payloads, begin: at, end: end?.at, returned: end?.returned ?? false }
    })
    .sort((a, b) => (a.begin < b.begin ? -1 : a.begin > b.begin ? 1 : 0))
}

/**
 * P1: pairs of runs of one id at the same time. A run without an end lasted until its process died, as told by
 * `deaths`; where that is not told, to this day.
 */
export function overlaps(
  runs: readonly Run[],
  deaths: ReadonlyMap<string, bigint> = new Map(),
): [Run, Run][] {
  const found: [Run, Run][] = []
  for (const ofId of byId(runs).values()) {
    let last: Run | undefined
    for (const run of ofId) {
      if (last && run.begin < endOf(last, deaths)) found.push([last, run])
      if (!last || endOf(run, deaths) > endOf(last, deaths)) last = run
    }
  }
  return found
}

/** P2: payloads that a handler got after a higher one of their id had been worked off, or above it in its batch. */
export function inversions(runs: readonly Run[], orderOf: (payload: unknown) => number): string[] {
  const found: string[] = []
  for (const [id, ofId] of byId(runs)) {
    let highest = Number.NEGATIVE_INFINITY
    for (const { payloads, returned } of ofId) {
      const orders = payloads.map(orderOf)
      orders.forEach((order, place) => {
        const before = Math.max(highest, ...orders.slice(0, place))
        if (order < before) found.push(`${id}: ${order} after ${before}`)
      })
      if (returned) highest = Math.max(highest, ...orders)
    }
  }
  return found
}

/** P3: payloads that were pushed, but that no handler which returned has had. */
export function lost(runs: readonly Run[], pushed: ReadonlyMap<string, readonly unknown[]>): string[] {
  const done = countDone(runs)
  return keysOf(pushed).filter((key) => !done.has(key))
}

/** Payloads that more than one handler had and returned. */
export function repeats(runs: readonly Run[]): string[] {
  return [...countDone(runs)].filter(([, count]) => count > 1).map(([key]) => key)
}

function countDone(runs: readonly Run[]): Map<string, number> {
  const done = new Map<string, number>()
  for (const { id, payloads, returned } of runs) {
    if (!returned) continue
    for (const key of keysOf(new Map([[id, payloads]]))) done.set(key, (done.get(key) ?? 0) + 1)
  }
  return done
}

function keysOf(payloads: ReadonlyMap<string, readonly unknown[]>): string[] {
  return [...payloads].flatMap(([id, some]) => some.map((payload) => `${id}: ${JSON.stringify(payload)}`))
}

function byId(runs: readonly Run[]): Map<string, Run[]> {
  const ids = new Map<string, Run[]>()
  for (const run of runs) {
    const ofId = ids.get(run.id)
    if (ofId) ofId.push(run)
    else ids.set(run.id, [run])
  }
  return ids
}

const FOREVER = 2n ** 63n

function endOf({ end, process }: Run, deaths: ReadonlyMap<string, bigint>): bigint {
  return end ?? deaths.get(process) ?? FOREVER
}
