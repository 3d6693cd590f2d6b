import type pg from 'pg'
import type { Update } from './feed.ts'
import type { Evidence, Run, Sent } from './judge.ts'
import type { Entry } from './logbook.ts'
import type { DemoProcess } from './process.ts'
import { millis, QUEUE_SCHEMA, SHOP_SCHEMA } from './shop.ts'

/** The payloads still in the queue. */
const QUEUED = {
  ordered: `SELECT payload FROM ${QUEUE_SCHEMA}.jobs WHERE payload IS NOT NULL
    UNION ALL SELECT payload FROM ${QUEUE_SCHEMA}.payloads`,
  naive: `SELECT payload FROM ${SHOP_SCHEMA}.jobs`,
}

export async function countProgress(client: pg.Client, naive: boolean) {
  const { rows } = await client.query(
    `SELECT (SELECT count(*) FROM ${SHOP_SCHEMA}.applied)::integer AS applied,
       (SELECT count(*) FROM (${naive ? QUEUED.naive : QUEUED.ordered}) q)::integer AS waiting`,
  )
  return rows[0] as { applied: number; waiting: number }
}

/** Uses the processes' own notes wherever they know what happened, and the tables only for the rest. */
export async function gatherEvidence(
  client: pg.Client,
  naive: boolean,
  feed: DemoProcess,
  workers: readonly DemoProcess[],
): Promise<Evidence> {
  const ask = async (text: string) => (await client.query(text)).rows
  const applied = await ask(
    `SELECT order_id AS order, version, run, taken_at AS "takenAt" FROM ${SHOP_SCHEMA}.applied ORDER BY seq`,
  )
  const waiting = await ask(naive ? QUEUED.naive : QUEUED.ordered)
  const [setbacks] = await ask(`SELECT count(*)::integer AS count FROM ${SHOP_SCHEMA}.setbacks`)
  const final = await ask(`SELECT order_id, version FROM ${SHOP_SCHEMA}.shipments`)
  const counted = await ask(`SELECT order_id, updates FROM ${SHOP_SCHEMA}.orders`)
  return {
    sent: sentBy(feed),
    rolledBack: only(feed.entries, 'rolledBack').flatMap(({ updates }) => updates),
    applied,
    waiting: waiting.map(({ payload }) => payload as Update),
    runs: workers.flatMap(runsOf),
    setbacks: setbacks.count,
    final: new Map(final.map((row) => [row.order_id, row.version])),
    counted: new Map(counted.map((row) => [row.order_id, row.updates])),
  }
}

/** Seconds from the first commit until the last update was applied, by the server's clock. */
export async function measureDuration(client: pg.Client, sent: readonly Sent[]): Promise<number> {
  const { rows } = await client.query(
    `SELECT ${millis('max(applied_at)')} AS last FROM ${SHOP_SCHEMA}.applied`,
  )
  const first = sent.reduce(
    (earliest, { committedAt }) => Math.min(earliest, committedAt),
    Number.POSITIVE_INFINITY,
  )
  return rows[0].last === null || sent.length === 0 ? 0 : Math.max(0, rows[0].last - first) / 1000
}

type Kind = Entry['kind']

export function only<K extends Kind>(entries: readonly Entry[], kind: K): Extract<Entry, { kind: K }>[] {
  return entries.filter((entry): entry is Extract<Entry, { kind: K }> => entry.kind === kind)
}

function sentBy(feed: DemoProcess): Sent[] {
  return only(feed.entries, 'sent').flatMap(({ updates, committedAt }) =>
    updates.map((update) => ({ ...update, committedAt })),
  )
}

/** A run without an end entry ended with its process. */
function runsOf({ entries, goneAt }: DemoProcess): Run[] {
  const ends = new Map(only(entries, 'end').map(({ run, at }) => [run, at]))
  return only(entries, 'begin').map(({ run, orders, at }) => ({
    orders,
    begin: at,
    end: ends.get(run) ?? goneAt,
  }))
}
