/** Times are ticks. A job is due if its time is below `FUTURE`. */
export const FUTURE = 1_000_000_000

/** When a payload expires. `past`: it has. */
export type Expiry = 'never' | 'later' | 'past'

/** A payload in a set. Of equal scores, the lower `seq` comes first. */
export interface Entry {
  readonly payload: string
  readonly score: number
  readonly seq: number
  /** Its headers: `{ mark }`. */
  readonly mark: string | null
  readonly expiry: Expiry
  /** Equal payloads have united of which only some expire: which score holds after that depends on how they lie there. */
  readonly isMixed?: boolean
}

/** A failed attempt as people see it, without its time. */
export interface Attempt {
  readonly kind: 'failure' | 'crash'
  readonly retryCount: number
  /** Null for a crash. */
  readonly error: string | null
}

export interface Job {
  id: string
  /** For whom it is; null: nobody in particular. */
  tenant: string | null
  lane: number
  performIn: number
  retryCount: number
  error: string | null
  crashes: number
  /** Since the last success, the newest first. */
  attempts: readonly Attempt[]
  /** The claim under which it is in progress; null while it waits. */
  claim: Claim | null
  /** What waits, or what was there when the round in progress began. */
  set: Entry[]
  /** What was pushed while the job is in progress, and the time when that may start; null if nothing was pushed. */
  next: Entry[]
  nextPerformIn: number | null
}

/** One round of one job. A claim that is another object than the job's has been lost. */
export interface Claim {
  readonly id: string
  readonly process: number
  readonly taken: readonly Entry[]
  /** Whether maxPayloads or maxBytes left some behind. */
  readonly cut: boolean
  readonly retryCount: number
  readonly crashes: number
  readonly rescued: boolean
  readonly error: string | null
}

export interface Dead {
  readonly id: string
  readonly tenant: string | null
  readonly payload: string
  readonly score: number
  readonly mark: string | null
  readonly error: string
  readonly attempts: readonly Attempt[]
  /** Higher for later deaths. */
  readonly died: number
}

/** What waits under an id, or is in progress: at most one of each. */
export interface Waiting {
  readonly id: string
  readonly tenant: string | null
  readonly state: 'waiting' | 'working'
  readonly performIn: number
  readonly retryCount: number
  readonly crashes: number
  readonly error: string | null
  readonly attempts: readonly Attempt[]
  readonly set: readonly Entry[]
}

/** A range of retry counts, both ends included. */
export interface Retries {
  readonly from?: number
  readonly to?: number
}

export interface Pushed {
  readonly id: string
  readonly payload: string
  readonly score: number
  readonly performIn: number
  readonly tenant: string | null
  /** Undefined: that is left to the tenant. */
  readonly lane: number | undefined
  readonly mark: string | null
  readonly expiry: Expiry
}

/** A push whose lane is decided on; it `counts` for the rules that decided, once it is committed. */
export interface Placed extends Pushed {
  readonly lane: number
  readonly counts: boolean
}

/** Matches what a tenant pushes above so many jobs `within` so many hours. */
export interface Rule {
  readonly over: number
  readonly within: number
  readonly lane: number
}

export interface Limit {
  readonly concurrency?: number | undefined
  /** How many may begin `within` so many hours. */
  readonly rate?: { readonly jobs: number; readonly within: number } | undefined
}

export interface Limits extends Limit {
  readonly tenant?: Limit | undefined
}

/** The answer for a round that could not simply end. */
export type Answer = 'again' | 'held' | 'lost' | undefined

export interface Policy {
  readonly batchSize: number
  readonly maxPayloads: number | undefined
  readonly maxBytes: number
  readonly maxRetryCount: number
  /** Without rules, each tenant has a lane of its own. */
  readonly rules: readonly Rule[]
  readonly limits: Limits
}

/** How many entries of a set one round takes: at least one. */
export function fitting(set: readonly Entry[], { maxPayloads = set.length, maxBytes }: Policy): number {
  const fits = set.filter((_, place) => {
    const bytes = set
      .slice(0, place + 1)
      .reduce((sum, { payload, mark }) => sum + JSON.stringify(payload).length + headersLength(mark), 0)
    return bytes <= maxBytes
  })
  return Math.max(1, Math.min(maxPayloads, fits.length))
}

/** As Postgres writes headers. */
function headersLength(mark: string | null): number {
  return mark === null ? 0 : `{"mark": "${mark}"}`.length
}

/**
 * Unites sets in push order. Of equal payloads, the smallest score wins, and of equal scores the first. The headers of
 * the first stay in any case. What has expired is as if it were not there (R17).
 */
export function unite(...entries: readonly Entry[]): Entry[] {
  const best = new Map<string, Entry>()
  for (const entry of entries) {
    const other = best.get(entry.payload)
    if (!other || (other.expiry === 'past' && entry.expiry !== 'past')) best.set(entry.payload, entry)
    else if (entry.expiry !== 'past' || other.expiry === 'past') best.set(entry.payload, merged(other, entry))
  }
  return [...best.values()].sort((a, b) => (before(a, b) ? -1 : 1))
}

/** `entry` was pushed after `other`. */
function merged(other: Entry, entry: Entry): Entry {
  const lower = before(entry, other) ? entry : other
  const isMixed = other.isMixed || entry.isMixed || other.expiry !== entry.expiry
  const expiry = isMixed ? 'never' : entry.expiry
  return { ...lower, mark: other.mark, expiry, ...(isMixed && { isMixed }) }
}

/** A push whose time comes later can't have expired: that would be refused. */
export function expiryOf({ expiry, performIn }: Pushed): Expiry {
  return expiry === 'past' && performIn >= FUTURE ? 'later' : expiry
}

/** What may be handed over. */
export function alive(set: readonly Entry[]): Entry[] {
  return set.filter(({ expiry }) => expiry !== 'past')
}

/** R3: a job that is `free` waits. Of one in progress, only what was pushed into it meanwhile waits. */
export function entriesOf(job: Job, free: boolean): Waiting[] {
  const { id, tenant, performIn, nextPerformIn, retryCount, crashes, error, attempts, set, next } = job
  const own = { id, tenant, performIn, retryCount, crashes, error, attempts }
  if (free) return [{ ...own, state: 'waiting', set: unite(...set, ...next) }]
  const working: Waiting = { ...own, state: 'working', set }
  if (nextPerformIn === null) return [working]
  const clean = { retryCount: -1, crashes: 0, error: null, attempts: [] }
  return [{ id, tenant, state: 'waiting', performIn: nextPerformIn, ...clean, set: next }, working]
}

/** A crash leaves the number of failures; a failure counts. */
export function noted({ attempts, retryCount }: Job, kind: Attempt['kind'], error: string | null): Attempt[] {
  const attempt = { kind, retryCount: kind === 'crash' ? retryCount : retryCount + 1, error }
  return [attempt, ...attempts].slice(0, 10)
}

export function textOfAttempts(attempts: readonly Attempt[]): string {
  return attempts.map(({ kind, retryCount, error }) => `(${kind} ${retryCount} ${error})`).join('')
}

/** The form in which payloads are compared. */
export function textOf({ payload, score, mark, expiry }: Omit<Entry, 'seq'>): string {
  return `${payload}[${score}]${mark ?? ''}${expiry === 'later' ? '~' : ''}`
}

function before(a: Entry, b: Entry): boolean {
  return a.score !== b.score ? a.score < b.score : a.seq < b.seq
}

export function byId(one: Job, other: Job): number {
  return one.id < other.id ? -1 : 1
}

export function fresh(of: Pick<Job, 'id' | 'tenant' | 'lane' | 'performIn'>, set: Entry[]): Job {
  const { id, tenant, lane, performIn } = of
  const numbers = { retryCount: -1, error: null, crashes: 0, attempts: [] }
  return { id, tenant, lane, performIn, ...numbers, claim: null, set, next: [], nextPerformIn: null }
}
