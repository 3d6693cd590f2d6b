/** Times are ticks: a job is due below `FUTURE`. */
export const FUTURE = 1_000_000_000

/** A payload in a set; of equal scores the lower `seq` comes first. */
export interface Entry {
  readonly payload: string
  readonly score: number
  readonly seq: number
}

export interface Job {
  id: string
  lane: number
  performIn: number
  retryCount: number
  error: string | null
  crashes: number
  /** The claim it is in work under; null while it waits. */
  claim: Claim | null
  /** What waits, or was there when the round in work began. */
  set: Entry[]
  /** Pushed while in work, and when that may start; null where nothing was. */
  next: Entry[]
  nextPerformIn: number | null
}

/** One round of one job. Whoever holds another object has lost it. */
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
  readonly payload: string
  readonly score: number
  readonly error: string
  /** The later it died, the higher. */
  readonly died: number
}

/** What waits under an id, or is in work: at most one of each. */
export interface Waiting {
  readonly id: string
  readonly state: 'waiting' | 'working'
  readonly performIn: number
  readonly retryCount: number
  readonly crashes: number
  readonly error: string | null
  readonly set: readonly Entry[]
}

/** Which retry counts are meant; both ends belong to it. */
export interface Retries {
  readonly from?: number
  readonly to?: number
}

export interface Pushed {
  readonly id: string
  readonly payload: string
  readonly score: number
  readonly performIn: number
  readonly lane: number
}

/** How a round that could not simply end was answered. */
export type Answer = 'again' | 'held' | 'lost' | undefined

export interface Policy {
  readonly batchSize: number
  readonly maxPayloads: number | undefined
  readonly maxBytes: number
  readonly maxRetryCount: number
}

/** Sets unite; for an equal payload the smallest score wins, and of equal scores the first. */
export function unite(...entries: readonly Entry[]): Entry[] {
  const best = new Map<string, Entry>()
  for (const entry of entries) {
    const other = best.get(entry.payload)
    if (!other || before(entry, other)) best.set(entry.payload, entry)
  }
  return [...best.values()].sort((a, b) => (before(a, b) ? -1 : 1))
}

function before(a: Entry, b: Entry): boolean {
  return a.score !== b.score ? a.score < b.score : a.seq < b.seq
}

export function byId(one: Job, other: Job): number {
  return one.id < other.id ? -1 : 1
}

export function fresh(id: string, lane: number, performIn: number, set: Entry[]): Job {
  const numbers = { retryCount: -1, error: null, crashes: 0 }
  return { id, lane, performIn, ...numbers, claim: null, set, next: [], nextPerformIn: null }
}
