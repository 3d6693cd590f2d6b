import type { Update } from './feed.ts'
import type { Verdict } from './verdict.ts'

/** A committed update. A handler whose order was taken after `committedAt` (ms, the server's clock) must get it. */
export interface Sent extends Update {
  readonly committedAt: number
}

/** An update that a handler got, listed in the order of application. */
export interface Applied extends Update {
  readonly run: string
  /** When its order was taken from the queue for this run: ms by the server's clock. */
  readonly takenAt: number
}

/** One run of a handler, by the clock that all processes share. If the process died, the run ends with it. */
export interface Run {
  readonly orders: readonly string[]
  readonly begin: number
  readonly end: number
}

export interface Evidence {
  readonly sent: readonly Sent[]
  readonly rolledBack: readonly Update[]
  readonly applied: readonly Applied[]
  /** Still in the queue. */
  readonly waiting: readonly Update[]
  readonly runs: readonly Run[]
  /** Writes that replaced a newer version by an older one. */
  readonly setbacks: number
  /** The last version of each order. */
  readonly final: ReadonlyMap<string, number>
  /** The number of updates sent per order, according to the producers' own table. */
  readonly counted: ReadonlyMap<string, number>
}

export function judge(evidence: Evidence): Verdict {
  const { sent, rolledBack, applied, waiting, setbacks } = evidence
  const known = new Set([...applied, ...waiting].map(keyOf))
  const distinct = new Set(applied.map(keyOf)).size
  return {
    sent: sent.length,
    rolledBack: rolledBack.length,
    applied: distinct,
    waiting: waiting.length,
    lost: sent.filter((update) => !known.has(keyOf(update))).length,
    appliedTwice: applied.length - distinct,
    traces: countTraces(evidence),
    ...judgeOrder(evidence),
    overlaps: countOverlaps(evidence.runs),
    setbacks,
    outdated: countOutdated(evidence),
    merged: merging(applied),
  }
}

function keyOf({ order, version }: Update): string {
  return `${order} ${version}`
}

function byOrder<T extends { readonly order: string }>(items: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const group = groups.get(item.order)
    if (group) group.push(item)
    else groups.set(item.order, [item])
  }
  return groups
}

function countTraces({ sent, applied, waiting, counted }: Evidence): number {
  const real = new Set(sent.map(keyOf))
  const unreal = new Set([...applied, ...waiting].map(keyOf).filter((key) => !real.has(key)))
  const groups = byOrder(sent)
  let difference = 0
  for (const order of new Set([...groups.keys(), ...counted.keys()]))
    difference += Math.abs((groups.get(order)?.length ?? 0) - (counted.get(order) ?? 0))
  return unreal.size + difference
}

function judgeOrder({ sent, applied }: Evidence): { outOfOrder: number; late: number } {
  const committedAt = new Map(sent.map((update) => [keyOf(update), update.committedAt]))
  let outOfOrder = 0
  let late = 0
  for (const group of byOrder(applied).values()) {
    for (const [place, update] of group.entries()) {
      const newer = group.slice(0, place).filter(({ version }) => version > update.version)
      if (newer.length === 0) continue
      const committed = committedAt.get(keyOf(update)) ?? Number.NEGATIVE_INFINITY
      if (newer.some(({ run, takenAt }) => run === update.run || takenAt > committed)) outOfOrder += 1
      else late += 1
    }
  }
  return { outOfOrder, late }
}

function countOverlaps(runs: readonly Run[]): number {
  const busyUntil = new Map<string, number>()
  let overlaps = 0
  for (const { orders, begin, end } of runs.toSorted((one, other) => one.begin - other.begin)) {
    for (const order of orders) {
      const until = busyUntil.get(order) ?? Number.NEGATIVE_INFINITY
      if (begin < until) overlaps += 1
      busyUntil.set(order, Math.max(until, end))
    }
  }
  return overlaps
}

function countOutdated({ sent, final }: Evidence): number {
  const newest = [...byOrder(sent)].map(([order, group]) => ({
    order,
    version: group.reduce((most, { version }) => Math.max(most, version), 0),
  }))
  return newest.filter(({ order, version }) => final.get(order) !== version).length
}

function merging(applied: readonly Applied[]): { average: number; most: number } {
  const sizes = new Map<string, number>()
  for (const { run, order } of applied) sizes.set(`${run} ${order}`, (sizes.get(`${run} ${order}`) ?? 0) + 1)
  const most = [...sizes.values()].reduce((largest, size) => Math.max(largest, size), 0)
  return { average: sizes.size === 0 ? 0 : applied.length / sizes.size, most }
}
