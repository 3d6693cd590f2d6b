import type { Database } from '../postgres/database.ts'
import { type Release, releaseTable, releaseText } from '../postgres/release.ts'
import { type Head, surveyText } from './head.ts'
import { lockedText, outlivedText, type ProcessSession, type ProcessSight, sightsText } from './process.ts'
import { type QueueRow, queuesText } from './queue.ts'

/** What a process asks when it compares. */
export interface Question {
  /** The queues it serves. */
  readonly names: readonly string[]
  readonly processId: number
  /** The shards to look at fully along the way; none where no full look is due. */
  readonly shards: readonly { readonly queueId: number; readonly shard: number }[]
}

/** All that a process goes by when it compares, of one moment. */
export interface Comparison {
  /** Whose definitions the database has. */
  readonly release: Release | null
  /** Those of the names that are there. */
  readonly queues: readonly QueueRow[]
  /** All whose rows are there, by their numbers. */
  readonly processes: readonly ProcessSight[]
  /** Sessions with the lock of a process that was removed, and of none that is there. */
  readonly outlived: readonly ProcessSession[]
  /** What the full look has found. */
  readonly heads: readonly Head[]
  /** The same for all who see the same release, processes and queues served: by it they tell each other of a change. */
  readonly state: string
  /** The server's clock in the middle of it all, in microseconds since 1970. */
  readonly now: number
}

type Row = Omit<Comparison, 'now'> & { readonly began: number; readonly ended: number }

/**
 * One statement: whoever idles costs the server one transaction a comparison. It is planned anew each time, since a plan that
 * small tables made look good would stay.
 *
 * The rows are those of the moment it began, the locks are read later. So a process that registers in between looks as if it had
 * outlived its row, and one that has just gone as if it were connected: the next comparison knows better.
 */
export async function compare(
  database: Database,
  { names, processId, shards }: Question,
): Promise<Comparison> {
  const [row] = await database.query<Row>(comparisonText(database), [
    names,
    processId,
    shards.map(({ queueId }) => queueId),
    shards.map(({ shard }) => shard),
  ])
  const { began, ended, ...read } = row!
  return { ...read, now: (began + ended) / 2 }
}

/** The clock is read first and last, as the columns are: however long the rest takes, the middle is the middle. */
function comparisonText({ prefix, schema }: Database): string {
  return `WITH locked AS MATERIALIZED (${lockedText(prefix)}), sights AS MATERIALIZED (${sightsText(prefix)})
    SELECT ${prefix}.micros(clock_timestamp()) AS began,
      (SELECT row_to_json(r) FROM (${releaseText(schema)}) r) AS release,
      (SELECT coalesce(json_agg(q ORDER BY q."queueId"), '[]') FROM (${queuesText(prefix)}) q) AS queues,
      (SELECT coalesce(json_agg(s ORDER BY s."processId"), '[]') FROM sights s) AS processes,
      (SELECT coalesce(json_agg(o), '[]') FROM (${outlivedText(prefix)}) o) AS outlived,
      (SELECT coalesce(json_agg(h), '[]') FROM (${surveyText(prefix)}) h) AS heads,
      ${stateText(prefix, schema)} AS state,
      ${prefix}.micros(clock_timestamp()) AS ended`
}

/** Numbers alone, so that it is the same in every encoding. */
function stateText(prefix: string, schema: string): string {
  return `hashtextextended(concat_ws(' ',
    (SELECT r.serial FROM ${releaseTable(schema)} r),
    (SELECT string_agg(concat_ws(':', s."processId", s.quiet, s.connected), ',' ORDER BY s."processId") FROM sights s),
    (SELECT string_agg(concat_ws(':', q.queue_id, q.shards, q.paused_at IS NOT NULL), ',' ORDER BY q.queue_id)
     FROM ${prefix}.queues q WHERE EXISTS (SELECT FROM sights s WHERE q.name = ANY (s.queues)))), 0)::text`
}
