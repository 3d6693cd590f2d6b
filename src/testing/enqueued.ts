import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import type { LookOptions } from '../admin/looks.ts'
import { LockstepError } from '../errors.ts'
import type { PayloadHeaders } from '../job.ts'
import type { Json } from '../json.ts'
import type { Lockstep } from '../lockstep.ts'
import { rejectUnknownOptions, wholeNumber } from '../options.ts'
import type { Queue } from '../queue.ts'
import type { FoundJob } from '../store/jobs.ts'
import type { Found } from '../store/page.ts'
import { type Expected, storedForm } from './expected.ts'
import { matches } from './matching.ts'

/** A payload that waits, with its job. */
export interface Enqueued<Payload = unknown> {
  readonly id: string
  readonly payload: Payload
  readonly score: number
  readonly performIn: Date
  readonly lane: number
  readonly headers: PayloadHeaders | null
  /** Null if it has none. */
  readonly tenant: string | null
}

const PAGE = 1_000
/** Of a list in a message. */
const MOST_SHOWN = 20

/** All payloads of a queue that wait, or lie behind a round in work, by time and score. */
export async function enqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  options: LookOptions = {},
): Promise<Enqueued<Json<P>>[]> {
  rejectUnknownOptions(options, ['tx'], 'enqueued')
  const all: Enqueued<Json<P>>[] = []
  let after: string | undefined
  do {
    const filter = { state: 'waiting', limit: PAGE, ...(after === undefined ? {} : { after }) } as const
    const page = await lockstep.find(queue, filter, options).catch((error) => noneIfUnknown<Json<P>>(error))
    for (const { id, performIn, lane, tenant, payloads } of page.items) {
      for (const { payload, score, headers } of payloads)
        all.push({ id, payload, score, performIn, lane, headers: headers ?? null, tenant })
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
 * @param times how many must match, from 0; default: at least one
 * @throws OptionError if `expected` has what no payload can have, such as a misspelt field
 */
export async function assertEnqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  expected: Expected<NoInfer<P | Json<P>>> = {},
  options: LookOptions & { readonly times?: number } = {},
): Promise<Enqueued<Json<P>>> {
  rejectUnknownOptions(options, ['tx', 'times'], 'assertEnqueued')
  const { times, ...where } = options
  if (times !== undefined) wholeNumber(times, 0, Number.MAX_SAFE_INTEGER, 'assertEnqueued: times')
  const stored = storedForm(expected, 'assertEnqueued')
  const all = await enqueued(lockstep, queue, where)
  const found = all.filter((one) => matches(one, stored))
  if (times === undefined ? found.length > 0 : found.length === times) return found[0]!
  const wanted = times === undefined ? 'a payload' : `${times} ${times === 1 ? 'payload' : 'payloads'}`
  const instead = times === undefined ? '' : `, and ${found.length} do`
  throw failure(
    `expected ${wanted} in queue "${queue.name}" to match ${shown(stored)}${instead}; ${waiting(all)}`,
    nearest(all, stored.id),
    stored,
  )
}

/**
 * Rejects with an AssertionError that shows them if payloads wait that match; without `expected`, if any do.
 * @throws OptionError if `expected` has what no payload can have, such as a misspelt field
 */
export async function assertNotEnqueued<P, Handed>(
  lockstep: Lockstep,
  queue: Queue<P, Handed>,
  expected: Expected<NoInfer<P | Json<P>>> = {},
  options: LookOptions = {},
): Promise<void> {
  rejectUnknownOptions(options, ['tx'], 'assertNotEnqueued')
  const stored = storedForm(expected, 'assertNotEnqueued')
  const found = (await enqueued(lockstep, queue, options)).filter((one) => matches(one, stored))
  if (found.length === 0) return
  throw failure(
    `expected no payload in queue "${queue.name}" to match ${shown(stored)}, but ${waiting(found)}`,
    found,
    [],
  )
}

function failure(message: string, actual: unknown, expected: unknown): AssertionError {
  return new AssertionError({ message, actual, expected, operator: 'enqueued' })
}

/** For the difference that a test runner shows: those of the expected id, if there are any. */
function nearest(all: readonly Enqueued[], id: unknown): unknown {
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
