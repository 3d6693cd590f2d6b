import type { Database } from '../postgres/database.ts'
import { type Release, releaseTable, releaseText } from '../postgres/release.ts'
import { type Head, surveyText } from './head.ts'
import { lockedText, outlivedText, type ProcessSession, type ProcessSight, sightsText } from './process.ts'
import { type QueueRow, queuesText } from './queue.ts'

/** The input of a comparison. */
export interface Question {
  /** The queues that the process serves. */
  readonly names: readonly string[]
  readonly processId: number
  /** The shards to include in a full look; none if no full look is due. */
  readonly shards: readonly { readonly queueId: number; readonly shard: number }[]
}

/** Everything a process needs for a comparison, as of one moment. */
export interface Comparison {
  /** The release whose definitions the database has. */
  readonly release: Release | null
  /** The named queues that exist. */
  readonly queues: readonly QueueRow[]
  /** All processes with a row, by number. */
  readonly processes: readonly ProcessSight[]
  /** Sessions that hold the lock of a removed process, but not of an existing one. */
  readonly outlived: readonly ProcessSession[]
  /** Whether consumers have leases, or may have had some that nobody has ended. */
  readonly leases: boolean
  /** The results of the full look. */
  readonly heads: readonly Head[]
  /** Equal for all processes that see the same release, processes and served queues; tells others of a change. */
  readonly state: string
  /** The server's clock when it got the statement and when it had carried it out, in microseconds since 1970. */
  readonly began: number
  readonly ended: number
}

/**
 * One statement, so that an idle process costs the server one transaction per comparison. It is planned each time, since a
 * plan that suited small tables would stay.
 *
 * The rows are as of the start of the statement; the locks are read later. So a process that registers in between seems to
 * have outlived its row, and one that has just ended seems connected. The next comparison corrects this.
 */
export async function compare(
  database: Database,
  { names, processId, shards }: Question,
): Promise<Comparison> {
  const [row] = await database.query<Comparison>(comparisonText(database), [
    names,
    processId,
    shards.map(({ queueId }) => queueId),
    shards.map(({ shard }) => shard),
  ])
  return row!
}

/** The transaction begins when the statement arrives, before it is planned. The last column reads the clock at the end. */
function comparisonText({ prefix, schema }: Database): string {
  return `WITH locked AS MATERIALIZED (${lockedText(prefix)}), sights AS MATERIALIZED (${sightsText(prefix)})
    SELECT ${prefix}.micros(now()) AS began,
      (SELECT row_to_json(r) FROM (${releaseText(schema)}) r) AS release,
      (SELECT coalesce(json_agg(q ORDER BY q."queueId"), '[]') FROM (${queuesText(prefix)}) q) AS queues,
      (SELECT coalesce(json_agg(s ORDER BY s."processId"), '[]') FROM sights s) AS processes,
      (SELECT coalesce(json_agg(o), '[]') FROM (${outlivedText(prefix)}) o) AS outlived,
      EXISTS (SELECT FROM ${prefix}.leases) AS leases,
      (SELECT coalesce(json_agg(h), '[]') FROM (${surveyText(prefix)}) h) AS heads,
      ${stateText(prefix, schema)} AS state,
      ${prefix}.micros(clock_timestamp()) AS ended`
}

/**
 * Uses only numbers, so that the result is the same in every encoding. Without a request it's the same as in a release that
 * knows of none.
 */
function stateText(prefix: string, schema: string): string {
  return `hashtextextended(concat_ws(' ',
    (SELECT r.serial FROM ${releaseTable(schema)} r),
    (SELECT string_agg(concat_ws(':', s."processId", s.quiet, s.connected,
      CASE s.request WHEN 'quiet' THEN 1 WHEN 'stop' THEN 2 END), ',' ORDER BY s."processId") FROM sights s),
    (SELECT string_agg(concat_ws(':', q.queue_id, q.shards, q.paused_at IS NOT NULL), ',' ORDER BY q.queue_id)
     FROM ${prefix}.queues q WHERE EXISTS (SELECT FROM sights s WHERE q.name = ANY (s.queues)))), 0)::text`
}
