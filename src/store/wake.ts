import type { Database } from '../postgres/database.ts'

/** What workers are told over NOTIFY on the channel named like the schema. */
export type Message =
  | { readonly kind: 'heads'; readonly queueId: number; readonly heads: readonly WokenHead[] }
  | { readonly kind: 'deal' }
  | { readonly kind: 'echo'; readonly from: string }

/** A lane and when its next job may be due, in microseconds since 1970. */
export interface WokenHead {
  readonly shard: number
  readonly lane: number
  readonly performIn: number
}

/** Every worker compares live processes, shards and pauses anew. */
export const DEAL = 'deal'

export function echo(from: string): string {
  return `echo ${from}`
}

/** `queue shard:lane:micros …`; without heads where there were too many for one message. */
export function parseMessage(text: string): Message {
  const [first = '', ...rest] = text.split(' ')
  if (first === DEAL) return { kind: 'deal' }
  if (first === 'echo') return { kind: 'echo', from: rest[0] ?? '' }
  const heads = rest.map((head) => {
    const [shard, lane, performIn] = head.split(':').map(Number)
    return { shard: shard!, lane: lane!, performIn: performIn! }
  })
  return { kind: 'heads', queueId: Number(first), heads }
}

export async function notify(database: Database, message: string): Promise<void> {
  await database.query('SELECT pg_notify($1, $2)', [database.schema, message])
}
