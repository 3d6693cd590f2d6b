import { LAST_TENANT_LANE, MAX_LANE } from '../job.ts'
import type { Database } from '../postgres/database.ts'
import { wholeNumber } from '../postgres/types.ts'
import type { Head } from './head.ts'
import { runThrough, type Through } from './through.ts'

/** The messages to workers, by NOTIFY on the channel named like the schema. */
export type Message =
  | { readonly kind: 'heads'; readonly queueId: number; readonly heads: readonly WokenHead[] }
  | { readonly kind: 'rebalance' }
  | { readonly kind: 'changed'; readonly state: string }
  | { readonly kind: 'freed' }
  | { readonly kind: 'echo'; readonly from: string }

/** A lane, and the time its next job may be due, in microseconds since 1970. */
export interface WokenHead {
  readonly shard: number
  readonly lane: number
  readonly performIn: number
}

/** Makes every worker compare live processes, shards and pauses again. */
export const REBALANCE = 'rebalance'

/** A process has released shards: workers that lack some try to get them. */
export const FREED = `${REBALANCE} freed`

/** A process has seen a new state (see Comparison): workers that have not seen it yet compare. */
export function changed(state: string): string {
  return `${REBALANCE} ${state}`
}

export function echo(from: string): string {
  return `echo ${from}`
}

/** `queue shard:lane:micros …`; without heads if there were too many for one message. */
export function parseMessage(text: string): Message {
  const [first = '', ...rest] = text.split(' ')
  if (first === REBALANCE) return parseRebalance(text, rest[0])
  if (first === 'echo') return { kind: 'echo', from: rest[0] ?? '' }
  return { kind: 'heads', queueId: Number(first), heads: rest.flatMap(parseHead) }
}

function parseRebalance(text: string, state: string | undefined): Message {
  if (text === FREED) return { kind: 'freed' }
  return state === undefined ? { kind: 'rebalance' } : { kind: 'changed', state }
}

/** Microseconds since 1970, within Postgres' timestamps: from some time in 4685 BC to the end of 9999. */
const [FIRST_MICRO, LAST_MICRO] = [-210_000_000_000_000_000, 253_402_300_800_000_000]

/** Anyone who can connect can NOTIFY: values that no push sends must not become part of a claim. */
function parseHead(text: string): WokenHead[] {
  const parts = /^(\d{1,5}):(-?\d{1,5}):(-?\d{1,18})$/.exec(text)?.slice(1).map(wholeNumber)
  if (!parts) return []
  const [shard, lane, performIn] = parts as [number, number, number]
  return lane >= LAST_TENANT_LANE && lane <= MAX_LANE && performIn >= FIRST_MICRO && performIn <= LAST_MICRO
    ? [{ shard, lane, performIn }]
    : []
}

/** From now on, no push in the transaction of `on` notifies: a transaction that has notified can't be prepared. */
export async function stayQuiet(on: Through): Promise<void> {
  await runThrough(on, 'SET LOCAL lockstep.wake = off')
}

export async function notify(database: Database, message: string): Promise<void> {
  await database.query('SELECT pg_catalog.pg_notify($1::text, $2::text)', [database.schema, message])
}

/** Tells all workers of the first due job in each lane, as a push does. */
export async function tellHeads(database: Database, heads: readonly Head[]): Promise<void> {
  const queues = new Map<number, Map<string, number>>()
  for (const { queueId, shard, lane, performIn } of heads) {
    const firsts = queues.get(queueId) ?? new Map<string, number>()
    const key = `${shard}:${lane}`
    firsts.set(key, Math.min(performIn, firsts.get(key) ?? performIn))
    queues.set(queueId, firsts)
  }
  for (const [queueId, firsts] of queues)
    await database.run('wake', [queueId, [...firsts].map(([key, performIn]) => `${key}:${performIn}`)])
}
