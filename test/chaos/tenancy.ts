import { type Fates, type Finding, lastsUntil } from '../support/checker.ts'
import type { Run } from '../support/handler-log.ts'
import { crowds, type PassedOver, passedOver, rushes, type Wait } from '../support/shares.ts'
import { type FieldQueues, TENANTED, tenantOf } from './queues.ts'
import type { TenantClaim, Truth } from './truth.ts'

/** How long a share of a queue was passed over; `id` names it. */
export interface Waited extends PassedOver {
  readonly id: string
}

/** What came to light of queues whose jobs have tenants. */
export interface Shares {
  /** More at once, or in a time, than a limit allows. */
  readonly overLimits: readonly Finding[]
  /** Tenants and lanes that were passed over for too long. */
  readonly starved: readonly Finding[]
  /** Who was passed over for the longest time, and from when. */
  readonly passedOver: Waited | undefined
  /** Jobs that were claimed for someone else than they are for. */
  readonly mistaken: readonly string[]
}

/**
 * Seconds in which a tenant, or a lane, may have something due that does not begin, while others of its queue do. It is a multiple of what
 * a fault can cause: the death of the process that has claimed what is due, which shows when its lease of 2 s is over;
 * a producer's transaction that was cut off and keeps rows locked, which has ended after the 5 s of its time-out. Faults
 * come side by side, and a new process takes seconds to start. But each has ids in many shards: nearly always one of them is due somewhere else.
 */
export const STARVED = 20

/** The runs are those of all queues. */
export function judgeTenants(queues: FieldQueues, truth: Truth, runs: readonly Run[], fates: Fates): Shares {
  const each = TENANTED.map((queue) => {
    const mine = runs.filter((run) => run.queue === queue)
    const claims = truth.claims.filter((claim) => claim.queue === queue)
    const sent = truth.sent.filter((item) => item.queue === queue)
    const shareOf = sharesOf(queue, claims)
    const waited = [...waitsOf(sent, mine, shareOf, fates)].map(
      ([share, waits]): Waited => ({ id: `${share} of ${queue}`, ...turnsOf(share, waits, mine, shareOf) }),
    )
    return { overLimits: overLimits(queues[queue], mine, claims, fates), waited }
  })
  const waited = each.flatMap((one) => one.waited)
  return {
    overLimits: each.flatMap((one) => one.overLimits),
    starved: waited.flatMap(({ id, seconds, from }) =>
      seconds < STARVED
        ? []
        : [{ id, at: from, what: `waited, and in ${seconds} s after that only others began` }],
    ),
    passedOver: waited.toSorted((a, b) => b.seconds - a.seconds)[0],
    mistaken: truth.claims
      .filter(({ id, tenant }) => tenant !== tenantOf(id))
      .map(({ queue, id, tenant }) => `${queue} ${id}: claimed as a job of ${tenant}`),
  }
}

/** Of the queue, and of each tenant. */
function overLimits(
  { limits = {} }: FieldQueues['limited'],
  runs: readonly Run[],
  claims: readonly TenantClaim[],
  fates: Fates,
): Finding[] {
  const told = (whose: string, found: readonly Finding[]) =>
    found.map((one) => ({ ...one, what: `limit of ${whose}: ${one.what}` }))
  const { tenant: each = {}, ...own } = limits
  const tenants = [...new Set(claims.map(({ tenant }) => tenant))].filter((tenant) => tenant !== null)
  return [
    ...told('the queue', own.concurrency ? crowds(runs, own.concurrency, fates) : []),
    ...told('the queue', own.rate ? rushes(claims, own.rate) : []),
    ...tenants.flatMap((tenant) => {
      const [of, taken] = [
        runs.filter(({ id }) => tenantOf(id) === tenant),
        claims.filter((one) => one.tenant === tenant),
      ]
      return [
        ...told(`tenant ${tenant}`, each.concurrency ? crowds(of, each.concurrency, fates) : []),
        ...told(`tenant ${tenant}`, each.rate ? rushes(taken, each.rate) : []),
      ]
    }),
  ]
}

/**
 * Whose turn a run was: that of a tenant. Of a queue with rules and no limits, that of a lane: tenants that push much are sent to
 * wait behind each other, for as long as that takes.
 */
function sharesOf(queue: string, claims: readonly TenantClaim[]): (run: Run) => string {
  if (queue !== 'ruled') return ({ id }) => `tenant ${tenantOf(id)}`
  const lanes = new Map(claims.map(({ id, fence, lane }) => [`${id} ${fence}`, lane]))
  return ({ id, fence }) => `lane ${lanes.get(`${id} ${fence}`)}`
}

/**
 * By share, from when payloads could begin until they did. One could when it was pushed, and when the id's round before had
 * ended. Ids without a number are left out, which faults keep waiting (see tenantOf).
 */
function waitsOf(
  sent: Truth['sent'],
  runs: readonly Run[],
  shareOf: (run: Run) => string,
  fates: Fates,
): Map<string, Wait[]> {
  const begins = new Map<string, { run: Run; free: bigint }>()
  const ends = new Map<string, bigint>()
  for (const run of runs) {
    for (const n of run.payloads) {
      const key = `${run.id} ${n}`
      if (!begins.has(key)) begins.set(key, { run, free: ends.get(run.id) ?? 0n })
    }
    ends.set(run.id, lastsUntil(run, fates))
  }
  const waits = new Map<string, Wait[]>()
  for (const { id, n, at } of sent) {
    const first = begins.get(`${id} ${n}`)
    if (!first || !/-\d+$/.test(id)) continue
    const wait = { from: first.free > at ? first.free : at, to: first.run.begin }
    if (wait.from >= wait.to) continue
    const share = shareOf(first.run)
    if (!waits.has(share)) waits.set(share, [])
    waits.get(share)!.push(wait)
  }
  return waits
}

function turnsOf(
  share: string,
  waits: readonly Wait[],
  runs: readonly Run[],
  shareOf: (run: Run) => string,
): PassedOver {
  const begins = { own: [] as bigint[], others: [] as bigint[] }
  for (const run of runs) begins[shareOf(run) === share ? 'own' : 'others'].push(run.begin)
  return passedOver(waits, begins.own, begins.others)
}
