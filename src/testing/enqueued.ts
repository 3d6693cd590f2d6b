import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import { LockstepError } from '../errors.ts'
import type { PayloadHeaders } from '../job.ts'
import type { Json } from '../json.ts'
import type { Lockstep, LookOptions } from '../lockstep.ts'
import type { Queue } from '../queue.ts'
import type { FoundJob } from '../store/jobs.ts'
import type { Found } from '../store/page.ts'
import { matches } from './matching.ts'

/** A payload that waits, with its job. */
export interface Enqueued<Payload = unknown> {
  readonly id: string
  readonly payload: Payload
  readonly score: number
  readonly performIn: Date
  readonly lane: number
  readonly headers: PayloadHeaders | null
}

/** What to look for: each field that is given must match. Of objects, the named members suffice. */
export interface Expected<Payload = unknown> extends Partial<Omit<Enqueued, 'payload'>> {
  readonly payload?: Part<Payload>
}

type Part<T> = unknown extends T
  ? unknown
  : T extends readonly unknown[]
    ? { readonly [Index in keyof T]: Part<T[Index]> }
    : T extends object
      ? { readonly [Key in keyof T]?: Part<T[Key]> | undefined }
      : T

const PAGE = 1_000
/** Of a list in a message. */
const MOST_SHOWN = 20

/** All payloads of a queue that wait, or lie behind a round in work, by time and score. */
export async function enqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  options: LookOptions = {},
): Promise<Enqueued<Json<P>>[]> {
  const all: Enqueued<Json<P>>[] = []
  let after: string | undefined
  do {
    const filter = { state: 'waiting', limit: PAGE, ...(after === undefined ? {} : { after }) } as const
    const page = await lockstep.find(queue, filter, options).catch((error) => noneIfUnknown<Json<P>>(error))
    for (const { id, performIn, lane, payloads } of page.items) {
      for (const { payload, score, headers } of payloads)
        all.push({ id, payload, score, performIn, lane, headers: headers ?? null })
    }
    after = page.next
  } while (after !== undefined)
  return all
}

/** Nothing was ever pushed into a queue that does not exist. */
function noneIfUnknown<Shown>(error: unknown): Found<FoundJob<Shown>> {
  if (error instanceof LockstepError && error.code === 'LOCKSTEP_UNKNOWN_QUEUE')
    return { items: [], next: undefined }
  throw error
}

/**
 * Rejects with an AssertionError that shows what waits instead, unless a payload that matches does. Resolves to the first.
 * @param times how many must match; default: at least one
 */
export async function assertEnqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  expected: Expected<NoInfer<Json<P>>> = {},
  { times, ...options }: LookOptions & { readonly times?: number } = {},
): Promise<Enqueued<Json<P>>> {
  const all = await enqueued(lockstep, queue, options)
  const found = all.filter((one) => matches(one, expected))
  if (times === undefined ? found.length > 0 : found.length === times) return found[0]!
  const wanted = times === undefined ? 'a payload' : `${times} ${times === 1 ? 'payload' : 'payloads'}`
  const instead = times === undefined ? '' : `, and ${found.length} do`
  throw failure(
    `expected ${wanted} in queue "${queue.name}" to match ${shown(expected)}${instead}; ${waiting(all)}`,
    nearest(all, expected.id),
    expected,
  )
}

/** Rejects with an AssertionError that shows them if payloads wait that match; without `expected`, if any do. */
export async function assertNotEnqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  expected: Expected<NoInfer<Json<P>>> = {},
  options: LookOptions = {},
): Promise<void> {
  const all = await enqueued(lockstep, queue, options)
  const found = all.filter((one) => matches(one, expected))
  if (found.length === 0) return
  throw failure(
    `expected no payload in queue "${queue.name}" to match ${shown(expected)}, but ${waiting(found)}`,
    found,
    [],
  )
}

function failure(message: string, actual: unknown, expected: unknown): AssertionError {
  return new AssertionError({ message, actual, expected, operator: 'enqueued' })
}

/** For the difference that a test runner shows: those of the expected id, if there are any. */
function nearest(all: readonly Enqueued[], id: string | undefined): unknown {
  const same = all.filter((one) => one.id === id)
  const some = same.length > 0 ? same : all
  return some.length === 1 ? some[0] : some
}

function waiting(all: readonly Enqueued[]): string {
  if (all.length === 0) return 'nothing waits there'
  const lines = all
    .slice(0, MOST_SHOWN)
    .map(({ id, payload, score }) => `\n  ${id}: ${shown(payload)} [score ${score}]`)
  const more = all.length > MOST_SHOWN ? `\n  and ${all.length - MOST_SHOWN} more` : ''
  return `${all.length === 1 ? 'this waits' : 'these wait'}:${lines.join('')}${more}`
}

function shown(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY })
}
