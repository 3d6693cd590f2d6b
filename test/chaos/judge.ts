import {
  beganAtStop,
  type Fates,
  type Finding,
  inversions,
  lost,
  outlived,
  overlaps,
  phantoms,
  repeats,
  shrunkFences,
  staleCompletions,
  vanished,
} from '../support/checker.ts'
import { type Run, read, runsOf } from '../support/handler-log.ts'
import { type Cluster, LEASE } from './cluster.ts'
import { FILLED, POISON_CRASHES } from './queues.ts'
import { judgeTenants, type Waited } from './tenancy.ts'
import type { Item, Truth } from './truth.ts'

/** The findings of a fight. All lists except `instants` must be empty. */
export interface Verdict {
  readonly overlaps: readonly Finding[]
  readonly inversions: readonly Finding[]
  readonly stale: readonly Finding[]
  /** Lost payloads, with the time of their push. */
  readonly lost: readonly Finding[]
  /** More at once, or in a time, than the limits of queues and tenants allow. */
  readonly overLimits: readonly Finding[]
  /** Tenants and lanes of which nothing began, though it was due, while others had their turn. */
  readonly starved: readonly Finding[]
  /** Runs that began in the same instant in which their process was stopped, for longer than its lease. */
  readonly instants: readonly Finding[]
  /** Everything else that must not happen, in words. */
  readonly others: readonly string[]
  /** Payloads of two handlers that both returned, where that is allowed. */
  readonly repeats: number
  readonly payloads: number
  readonly rounds: number
  /** Most ms that a handler went on after its process had been stopped for longer than its lease. */
  readonly outlived: number
  /** Who was passed over for the longest time; undefined if no one ever waited. */
  readonly passedOver: Waited | undefined
}

/** What happened to whom. */
export type Scene = Pick<Cluster, 'log' | 'queues' | 'allWorkers' | 'allProducers' | 'freezes' | 'poisoned'>

const NS_PER_MS = 1_000_000n
const order = (payload: unknown) => payload as number

/** Compares what handlers did with what was pushed. */
export function judge(cluster: Scene, truth: Truth): Verdict {
  const entries = read(cluster.log)
  const runs = runsOf(entries)
  const deaths = new Map(
    cluster.allWorkers.flatMap(({ name, endedAt }) => (endedAt ? [[name, endedAt] as const] : [])),
  )
  const fates: Fates = { deaths, freezes: cluster.freezes, lease: BigInt(LEASE) * NS_PER_MS }
  const queues = Object.keys(cluster.queues).map((name) => runs.filter(({ queue }) => queue === name))
  const filled = FILLED.map((name) => ({ name, runs: runs.filter(({ queue }) => queue === name) }))
  const each = <T>(check: (runs: readonly Run[]) => T[]) => queues.flatMap(check)
  const instants = each((some) => beganAtStop(some, fates))
  const apart = new Set(instants.flatMap((one) => one.runs))
  const eachInTime = <T>(check: (runs: readonly Run[]) => T[]) =>
    each((some) => check(some.filter((run) => !apart.has(run))))
  const inTime = runs.filter((run) => !apart.has(run))
  const { mistaken, ...shares } = judgeTenants(cluster.queues, truth, inTime, fates)
  return {
    ...shares,
    instants,
    overlaps: eachInTime((some) => overlaps(some, fates)),
    inversions: eachInTime((some) => inversions(some, order)),
    stale: filled.flatMap((some) => staleCompletions(some.runs)),
    lost: filled.flatMap((some) => lostOf(truth, some.name, some.runs)),
    others: [
      ...eachInTime(shrunkFences).map(({ id, what }) => `${id}: fences don’t grow: ${what}`),
      ...filled.flatMap((some) => strangers(truth, some.name, some.runs)),
      ...filled
        .flatMap((some) => vanished(some.runs))
        .map(({ queue, id, what }) => `${queue} ${id}: ${what}`),
      ...(runs.length === 0 ? ['no handler ran'] : []),
      ...mistaken,
      ...judgeTruth(truth),
      ...judgePoison(truth, cluster, runs),
      ...[...cluster.allWorkers, ...cluster.allProducers].flatMap(({ name, failure }) =>
        failure ? [`${name} ended with an error nobody caught: ${failure}`] : [],
      ),
      ...entries
        .filter(({ kind }) => kind === 'empty')
        .map(({ queue, id }) => `${queue} ${id}: a round without payloads`),
    ],
    repeats: filled
      .filter(({ name }) => name !== 'exact')
      .reduce((sum, some) => sum + repeats(some.runs).length, 0),
    payloads: new Set(runs.flatMap(({ queue, id, payloads }) => payloads.map((n) => `${queue} ${id} ${n}`)))
      .size,
    rounds: runs.length,
    outlived: Number(queues.map((some) => outlived(some, fates)).reduce((a, b) => (a > b ? a : b), 0n)) / 1e6,
  }
}

function lostOf({ sent }: Truth, queue: string, runs: readonly Run[]): Finding[] {
  const mine = sent.filter((item) => item.queue === queue)
  const missing = new Set(lost(runs, pushedTo(mine)))
  return mine
    .filter(({ id, n }) => missing.has(`${id}: ${n}`))
    .map(({ id, n, at }) => ({ id, at, what: `${queue} ${n} was lost` }))
}

/** P4: payloads that handlers got although they were rolled back or never pushed. */
function strangers({ sent }: Truth, queue: string, runs: readonly Run[]): string[] {
  const mine = sent.filter((item) => item.queue === queue)
  return phantoms(runs, pushedTo(mine)).map(({ id, what }) => `${queue} ${id}: ${what}`)
}

function pushedTo(items: readonly Item[]): Map<string, number[]> {
  const pushed = new Map<string, number[]>()
  for (const { id, n } of items) {
    const numbers = pushed.get(id)
    if (numbers) numbers.push(n)
    else pushed.set(id, [n])
  }
  return pushed
}

/** Everything applied exactly once, nothing lost that was acknowledged, and nothing left behind. */
function judgeTruth({ sent, acknowledged, applied, leftovers }: Truth): string[] {
  const key = ({ queue, id, n }: Item) => `${queue} ${id} ${n}`
  const known = new Set(sent.map(key))
  const found = acknowledged
    .filter((item) => !known.has(key(item)))
    .map((item) => `${key(item)}: acknowledged, not stored`)
  const times = new Map<string, number>()
  for (const item of applied) times.set(key(item), (times.get(key(item)) ?? 0) + 1)
  for (const item of sent) {
    const count = times.get(key(item)) ?? 0
    if (item.queue === 'exact' && count !== 1) found.push(`${key(item)}: applied ${count} times`)
  }
  for (const item of applied) if (!known.has(key(item))) found.push(`${key(item)}: applied, never pushed`)
  found.push(...backwards(applied))
  if (leftovers.jobs + leftovers.payloads > 0) found.push(`left behind: ${JSON.stringify(leftovers)}`)
  return found
}

/** Whether what transactions have written for an id is out of order. */
function backwards(applied: readonly Item[]): string[] {
  const last = new Map<string, number>()
  return applied.flatMap(({ id, n }) => {
    const before = last.get(id) ?? 0
    last.set(id, n)
    return n < before ? [`${id}: ${n} applied after ${before}`] : []
  })
}

/** Each poisoned job has killed at most as many processes as it may, and is in the morgue; no other job is. */
function judgePoison({ dead }: Truth, { poisoned }: Scene, runs: readonly Run[]): string[] {
  const found = dead.filter(({ id }) => !poisoned.has(id)).map(({ id }) => `${id} died`)
  const buried = new Set(dead.map(({ id }) => id))
  for (const id of poisoned) {
    if (!buried.has(id)) found.push(`${id} is not in the morgue`)
    const killed = runs.filter((run) => run.id === id).length
    if (killed > POISON_CRASHES) found.push(`${id} killed ${killed} processes`)
  }
  return found
}

/** Everything that must not happen, in words. */
export function complaints(verdict: Verdict): string[] {
  const { overlaps, inversions, stale, lost, overLimits, starved, others } = verdict
  const told = (kind: string, findings: readonly Finding[]) =>
    findings.map(({ id, what }) => `${kind}: ${id}: ${what}`)
  return [
    ...told('overlap', overlaps),
    ...told('inversion', inversions),
    ...told('stale completion accepted', stale),
    ...told('lost', lost),
    ...told('over a limit', overLimits),
    ...told('starved', starved),
    ...others,
  ]
}
