import type { Run } from './handler-log.ts'

/** Something that must not happen, and the time at which it showed. */
export interface Finding {
  readonly id: string
  /** ns of the clock that all processes share. */
  readonly at: bigint
  readonly what: string
}

/** A finding with the runs that show it. */
export interface RunFinding extends Finding {
  readonly queue: string
  /** The run at fault comes first. */
  readonly runs: readonly Run[]
}

/** What happened to processes: when they died, and when they were stopped and continued, in ns. */
export interface Fates {
  readonly deaths?: ReadonlyMap<string, bigint>
  /** Both times are noted before the signal is sent. */
  readonly freezes?: ReadonlyMap<string, readonly (readonly [stoppedAt: bigint, continuedAt: bigint])[]>
  /** ns that a process may be stopped without losing its claims. Default: for ever. */
  readonly lease?: bigint
}

/** Payloads by id, all of one queue. */
export type PayloadsOfIds = ReadonlyMap<string, readonly unknown[]>

/**
 * P1: two runs of one id at the same time. A run lasts until its handler ended, or its process was gone; if neither is
 * known, until now. If its process was stopped for longer than its lease, it lasts until the stop: the process can't
 * know of that, and `outlived` reports what it may still do after it continues.
 */
export function overlaps(runs: readonly Run[], fates: Fates = {}): RunFinding[] {
  const found: RunFinding[] = []
  for (const ofId of byId(runs)) {
    let last: Run | undefined
    let until = 0n
    for (const run of ofId) {
      if (last && run.begin < until) found.push(finding(`${tell(run)} beside ${tell(last)}`, run, last))
      const end = lastsUntil(run, fates)
      if (last && end <= until) continue
      last = run
      until = end
    }
  }
  return found
}

/**
 * Runs that began in the same instant in which their process was stopped for longer than its lease. The process had
 * checked its lease for the last time (`asked`). Then it was stopped before the handler's first line, which ran when it
 * continued. That is the only thing that a check of the lease can't prevent. Nothing has waited between the two, or the
 * log would not contain the time of the check. By the clock they may be apart, if the machine is busy and the process
 * had to wait for its turn. `overlaps`, `inversions` and `shrunkFences` do not judge these runs: they are reported
 * separately.
 */
export function beganAtStop(runs: readonly Run[], { freezes, lease = FOREVER }: Fates): RunFinding[] {
  return runs.flatMap((run) => {
    const { asked, begin, process } = run
    const fatal = freezes
      ?.get(process)
      ?.some(
        ([stopped, continued]) =>
          continued - stopped > lease && asked !== undefined && asked < continued && begin >= continued,
      )
    return fatal ? [finding(`${tell(run)} began in the same instant its process was stopped`, run)] : []
  })
}

/**
 * The longest time that a run went on after its process had been stopped for longer than its lease, in ns. A run whose
 * end is unknown does not count.
 */
export function outlived(runs: readonly Run[], fates: Fates): bigint {
  let longest = 0n
  for (const run of runs) {
    const freeze = fatalFreeze(run, fates)
    const end = endOf(run, fates)
    if (freeze && end < FOREVER && end - freeze[1] > longest) longest = end - freeze[1]
  }
  return longest
}

/**
 * P2: payloads out of order in a run, and payloads that come although a higher one of their id was completed before.
 * The latter is no fault if a payload was pushed late. So one producer must push an id's payloads in order, the next
 * one after the last is committed. A completion counts once it was accepted: a process may be killed between its
 * handler's return and the completion, and then everything comes again. If the highest payload itself comes again,
 * `staleCompletions` reports it, since orders may be equal.
 */
export function inversions(runs: readonly Run[], orderOf: (payload: unknown) => number): RunFinding[] {
  const found: RunFinding[] = []
  for (const ofId of byId(runs)) {
    let completed = Number.NEGATIVE_INFINITY
    let completion: Run | undefined
    for (const run of ofId) {
      let before = completed
      for (const payload of run.payloads) {
        const order = orderOf(payload)
        const others = completion && order < completed ? [completion] : []
        if (order < before) found.push(finding(`${tell(run)}: ${order} after ${before}`, run, ...others))
        before = Math.max(before, order)
      }
      if (!run.accepted || before === completed) continue
      completed = before
      completion = run
    }
  }
  return found
}

/** P3: payloads of one queue that were pushed, but that no handler which returned has had, and that are not dead. */
export function lost(runs: readonly Run[], pushed: PayloadsOfIds, dead: PayloadsOfIds = NONE): string[] {
  const ids = new Map(byIdOfOneQueue(runs).map((ofId) => [ofId[0]!.id, ofId]))
  return [...pushed].flatMap(([id, payloads]) => {
    const done = (ids.get(id) ?? []).filter(({ returned }) => returned).flatMap((run) => run.payloads)
    const known = new Set([...done, ...(dead.get(id) ?? [])].map(keyOf))
    return payloads
      .filter((payload) => !known.has(keyOf(payload)))
      .map((payload) => `${id}: ${JSON.stringify(payload)}`)
  })
}

/**
 * P3: payloads of a run that failed, or died with its process, that no handler got again, and that are not dead: a
 * failure or a death could not have completed them. For a queue that has no jobs left, and in which all payloads of an
 * id differ. Of a run that returned, nothing can be said: its completion may be stored although the process was not
 * told.
 */
export function vanished(runs: readonly Run[], dead: PayloadsOfIds = NONE): RunFinding[] {
  return byIdOfOneQueue(runs).flatMap((ofId) => {
    const buried = new Set((dead.get(ofId[0]!.id) ?? []).map(keyOf))
    return [...newest(ofId)]
      .filter(([key, { returned, accepted }]) => !returned && !accepted && !buried.has(key))
      .map(([key, run]) => finding(`${key} of ${tell(run)} never came again`, run))
  })
}

/** P4: payloads of one queue that a handler had, but that were never pushed. */
export function phantoms(runs: readonly Run[], pushed: PayloadsOfIds): RunFinding[] {
  return byIdOfOneQueue(runs).flatMap((ofId) => {
    const known = new Set((pushed.get(ofId[0]!.id) ?? []).map(keyOf))
    return ofId.flatMap((run) =>
      run.payloads
        .filter((payload) => !known.has(keyOf(payload)))
        .map((payload) => finding(`${JSON.stringify(payload)} was never pushed`, run)),
    )
  })
}

/** Payloads that more than one handler had when it returned: "at least once" allows that. */
export function repeats(runs: readonly Run[]): RunFinding[] {
  return byId(runs).flatMap((ofId) => {
    const done = new Map<PayloadKey, Run[]>()
    for (const run of ofId) {
      if (!run.returned) continue
      for (const key of run.payloads.map(keyOf)) done.set(key, [...(done.get(key) ?? []), run])
    }
    return [...done]
      .filter(([, times]) => times.length > 1)
      .map(([key, times]) => finding(`${key}: ${times.length} times`, times.at(-1)!, ...times.slice(0, -1)))
  })
}

/**
 * P6: completions that were accepted although another run had some of the payloads under a higher fence. A completion
 * in time deletes its payloads, so that no handler gets them again. All payloads of an id must differ.
 */
export function staleCompletions(runs: readonly Run[]): RunFinding[] {
  const found: RunFinding[] = []
  for (const ofId of byId(runs)) {
    const highest = newest(ofId)
    for (const run of ofId) {
      if (!run.accepted) continue
      const later = run.payloads.map((payload) => highest.get(keyOf(payload))!)
      const best = later.find(({ fence }) => fence > run.fence)
      if (!best) continue
      const at = best.begin
      found.push({ ...finding(`${tell(run)} accepted beside ${tell(best)}`, run, best), at })
    }
  }
  return found
}

/** P6: runs in which the fence of an id did not grow. */
export function shrunkFences(runs: readonly Run[]): RunFinding[] {
  return byId(runs).flatMap((ofId) =>
    ofId.flatMap((run, place) => {
      const before = ofId[place - 1]
      if (!before || run.fence > before.fence || isPerformedAgain(run, before)) return []
      return [finding(`${tell(run)} after ${tell(before)}`, run, before)]
    }),
  )
}

/** A process may perform a round again under its claim, if the transaction of the first try could not be committed. */
function isPerformedAgain(run: Run, before: Run): boolean {
  const samePlace = run.fence === before.fence && run.process === before.process
  return samePlace && !before.accepted && before.end !== undefined && before.end <= run.begin
}

function finding(what: string, run: Run, ...others: readonly Run[]): RunFinding {
  return { queue: run.queue, id: run.id, at: run.begin, what, runs: [run, ...others] }
}

function tell({ process, queue, fence }: Run): string {
  return `${process}’s run ${fence} of ${queue}`
}

/** The runs of each id of each queue, in the order in which they began. */
function byId(runs: readonly Run[]): Run[][] {
  const queues = new Map<string, Map<string, Run[]>>()
  for (const run of runs) {
    const ids = queues.get(run.queue) ?? new Map<string, Run[]>()
    queues.set(run.queue, ids)
    const ofId = ids.get(run.id)
    if (ofId) ofId.push(run)
    else ids.set(run.id, [run])
  }
  const all = [...queues.values()].flatMap((ids) => [...ids.values()])
  return all.map((ofId) => ofId.sort((a, b) => (a.begin < b.begin ? -1 : a.begin > b.begin ? 1 : 0)))
}

/** Payloads by id alone would be mixed up with those of another queue. */
function byIdOfOneQueue(runs: readonly Run[]): Run[][] {
  const other = runs.find(({ queue }) => queue !== runs[0]!.queue)
  if (other) throw new Error(`runs of one queue only: these are of ${runs[0]!.queue} and ${other.queue}`)
  return byId(runs)
}

/** For each payload, the run with the highest fence that had it. */
function newest(ofId: readonly Run[]): Map<PayloadKey, Run> {
  const runs = new Map<PayloadKey, Run>()
  for (const run of ofId) {
    for (const payload of run.payloads) {
      const key = keyOf(payload)
      const best = runs.get(key)
      if (!best || run.fence > best.fence) runs.set(key, run)
    }
  }
  return runs
}

const FOREVER = 2n ** 63n
const NONE: PayloadsOfIds = new Map()

/** A process that died before the run began was another one with the same name. */
function endOf({ begin, end, process }: Run, { deaths }: Fates): bigint {
  if (end !== undefined) return end
  const death = deaths?.get(process)
  return death !== undefined && death >= begin ? death : FOREVER
}

/** In ns; for ever if nothing is known of its end. */
export function lastsUntil(run: Run, fates: Fates): bigint {
  return fatalFreeze(run, fates)?.[0] ?? endOf(run, fates)
}

/**
 * When the process was stopped, for longer than its lease, while the run was in progress. A stopped process writes
 * nothing. So a run that began after the noted time began before the signal came, and one that ended then had ended
 * before.
 */
function fatalFreeze(run: Run, fates: Fates) {
  const { freezes, lease = FOREVER } = fates
  return freezes
    ?.get(run.process)
    ?.find(
      ([stopped, continued]) =>
        continued - stopped > lease &&
        run.begin <= continued &&
        (run.end === undefined ? endOf(run, fates) > stopped : run.end > continued),
    )
}

type PayloadKey = string | number

/** Compares payloads as JSON values, since Postgres returns an object's members in its own order. */
function keyOf(payload: unknown): PayloadKey {
  return typeof payload === 'number' ? payload : JSON.stringify(payload, sorted)
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
