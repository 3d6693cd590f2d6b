import type { Run } from './handler-log.ts'

/** Something that must not happen, with the time it showed; all checks are about the runs of one queue. */
export interface Finding {
  readonly id: string
  /** ns of the clock that all processes share. */
  readonly at: bigint
  readonly what: string
}

/** What befell processes: when they were gone, and when they were stopped and went on, in ns. */
export interface Fates {
  readonly deaths?: ReadonlyMap<string, bigint>
  readonly freezes?: ReadonlyMap<string, readonly (readonly [stoppedAt: bigint, continuedAt: bigint])[]>
  /** ns that a process may be stopped without losing what it has claimed. Default: for ever. */
  readonly lease?: bigint
}

/**
 * P1: two runs of one id at the same time. A run lasts until its handler ended, or its process was gone; where
 * neither is known, to this day. One whose process was stopped for longer than its lease lasts until then: the
 * process can't know, and what it may still do when it goes on is `outlived`'s to tell.
 */
export function overlaps(runs: readonly Run[], fates: Fates = {}): Finding[] {
  const found: Finding[] = []
  for (const [id, ofId] of byId(runs)) {
    let last: Run | undefined
    let until = 0n
    for (const run of ofId) {
      if (last && run.begin < until)
        found.push({ id, at: run.begin, what: `${tell(run)} beside ${tell(last)}` })
      const end = lastsUntil(run, fates)
      if (last && end <= until) continue
      last = run
      until = end
    }
  }
  return found
}

/** The longest that a run went on after its process had been stopped for longer than its lease, in ns. */
export function outlived(runs: readonly Run[], fates: Fates): bigint {
  let longest = 0n
  for (const run of runs) {
    const freeze = fatalFreeze(run, fates)
    if (!freeze) continue
    const after = endOf(run, fates) - freeze[1]
    if (after > longest) longest = after
  }
  return longest
}

/**
 * P2: payloads out of order in a run; and payloads that come although a higher one of their id was completed
 * before. That is no fault where a payload was pushed late: so an id's payloads must be pushed in their order, the
 * next one after the last is committed. A completion counts when it was accepted: a process may be killed between
 * its handler's return and the completion, and then all comes again.
 */
export function inversions(runs: readonly Run[], orderOf: (payload: unknown) => number): Finding[] {
  const found: Finding[] = []
  for (const [id, ofId] of byId(runs)) {
    let completed = Number.NEGATIVE_INFINITY
    for (const run of ofId) {
      let before = completed
      for (const payload of run.payloads) {
        const order = orderOf(payload)
        if (order < before) found.push({ id, at: run.begin, what: `${tell(run)}: ${order} after ${before}` })
        before = Math.max(before, order)
      }
      if (run.accepted) completed = before
    }
  }
  return found
}

/** P3: payloads that were pushed, but that no handler which returned has had. */
export function lost(runs: readonly Run[], pushed: ReadonlyMap<string, readonly unknown[]>): string[] {
  const done = countReturned(runs)
  return keysOf(pushed).filter((key) => !done.has(key))
}

/** P4: payloads that a handler had, but nobody has pushed. */
export function phantoms(runs: readonly Run[], pushed: ReadonlyMap<string, readonly unknown[]>): Finding[] {
  const known = new Set(keysOf(pushed))
  return runs.flatMap(({ id, begin, payloads }) =>
    payloads
      .filter((payload) => !known.has(keyOf(id, payload)))
      .map((payload) => ({ id, at: begin, what: `${JSON.stringify(payload)} was never pushed` })),
  )
}

/** Payloads that more than one handler had and returned: at least once allows it. */
export function repeats(runs: readonly Run[]): string[] {
  return [...countReturned(runs)].filter(([, count]) => count > 1).map(([key]) => key)
}

/**
 * P6: completions that were accepted although another run had a part of the payloads under a higher fence: a
 * completion in time deletes them, so that nobody gets them again. Every payload of an id must be another.
 */
export function staleCompletions(runs: readonly Run[]): Finding[] {
  const found: Finding[] = []
  for (const [id, ofId] of byId(runs)) {
    const highest = new Map<string, Run>()
    for (const run of ofId) {
      for (const payload of run.payloads) {
        const key = JSON.stringify(payload)
        const best = highest.get(key)
        if (!best || run.fence > best.fence) highest.set(key, run)
      }
    }
    for (const run of ofId.filter(({ accepted }) => accepted)) {
      const later = run.payloads.map((payload) => highest.get(JSON.stringify(payload))!)
      const best = later.find(({ fence }) => fence > run.fence)
      if (best) found.push({ id, at: best.begin, what: `${tell(run)} accepted beside ${tell(best)}` })
    }
  }
  return found
}

/** P6: the fences of an id only grow. */
export function shrunkFences(runs: readonly Run[]): Finding[] {
  const found: Finding[] = []
  for (const [id, ofId] of byId(runs)) {
    ofId.forEach((run, place) => {
      const before = ofId[place - 1]
      if (before && run.fence <= before.fence)
        found.push({ id, at: run.begin, what: `${tell(run)} after ${tell(before)}` })
    })
  }
  return found
}

function tell({ process, fence }: Run): string {
  return `${process}’s run ${fence}`
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

function endOf({ end, process }: Run, { deaths }: Fates): bigint {
  return end ?? deaths?.get(process) ?? FOREVER
}

function lastsUntil(run: Run, fates: Fates): bigint {
  return fatalFreeze(run, fates)?.[0] ?? endOf(run, fates)
}

/** The time the process was stopped for longer than its lease while the run was in work. */
function fatalFreeze(run: Run, fates: Fates) {
  const { freezes, lease = FOREVER } = fates
  const end = endOf(run, fates)
  return freezes
    ?.get(run.process)
    ?.find(([stopped, continued]) => continued - stopped > lease && run.begin <= stopped && end > stopped)
}

function countReturned(runs: readonly Run[]): Map<string, number> {
  const done = new Map<string, number>()
  for (const { id, payloads, returned } of runs) {
    if (!returned) continue
    for (const payload of payloads) {
      const key = keyOf(id, payload)
      done.set(key, (done.get(key) ?? 0) + 1)
    }
  }
  return done
}

function keyOf(id: string, payload: unknown): string {
  return `${id}: ${JSON.stringify(payload)}`
}

function keysOf(payloads: ReadonlyMap<string, readonly unknown[]>): string[] {
  return [...payloads].flatMap(([id, some]) => some.map((payload) => keyOf(id, payload)))
}
