import type pg from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Database } from './database.ts'
import { type Ask, askOn } from './release.ts'
import { quoteIdentifier } from './schema-name.ts'

/** A sequence that was behind its rows. */
export interface RaisedSequence {
  /** Such as `lockstep.fences`, quoted where it has to be. */
  readonly sequence: string
  readonly from: number
  readonly to: number
}

interface Behind {
  readonly sequence: string
  readonly last: number
  /** In a row. */
  readonly highest: number
  /** Where the sequence is to stand. */
  readonly to: number
}

/** Pages read of each large table where a sample has to do: a few ms. */
const SAMPLE_PAGES = 250

/**
 * Sequences that stand below the numbers in their rows, since rows came without them: restored or replicated tables,
 * logical replication above all, which leaves sequences at 1. A fence below the payloads' would lose them unseen; a
 * push below others breaks their order; a process with the number of one that is gone takes its claims for its own,
 * and never rescues them; a queue may get the number of another's jobs.
 *
 * No index has these columns, and one would cost every claim. So large tables are read in a sample, by whole pages:
 * what a restore brings is most of a table, and shows in any part of it. What a sample misses a claim finds, since it
 * compares its fence with the rows it has locked. Only `everyRow` reads all.
 */
async function sequencesBehind(ask: Ask, schema: string, everyRow: boolean): Promise<Behind[]> {
  const rows = await ask<{ sequence: string; last: number; highest: number; margin: number }>(
    comparison(quoteIdentifier(schema), everyRow),
  )
  return rows.map(({ sequence, last, highest, margin }) => ({
    sequence,
    last: Number(last),
    highest: Number(highest),
    to: Number(highest) + margin,
  }))
}

/**
 * Of a sequence that the role may not read nothing is said. The numbers are read from the rows of a snapshot that is
 * older than the sequence's: work that goes on meanwhile can't make it look behind.
 */
function comparison(prefix: string, everyRow: boolean): string {
  const some = (table: string) =>
    everyRow ? `${prefix}.${table}` : `${prefix}.${table} TABLESAMPLE SYSTEM ((${share(prefix, table)}))`
  return `WITH jobs AS MATERIALIZED (
      SELECT max(fence) AS fence, max(claimed_by) AS claimed_by, max(queue_id) AS queue_id FROM ${some('jobs')}
    ), payloads AS MATERIALIZED (
      SELECT max(fence) AS fence, max(seq) AS seq, max(queue_id) AS queue_id FROM ${some('payloads')}
    ), highest (sequence, number, margin) AS MATERIALIZED (
      SELECT '${prefix}.fences', greatest(j.fence, p.fence), ${MARGIN} FROM jobs j, payloads p
      UNION ALL SELECT '${prefix}.pushes', p.seq, ${MARGIN} FROM payloads p
      UNION ALL SELECT pg_get_serial_sequence('${prefix}.queues', 'queue_id'),
        greatest((SELECT max(q.queue_id) FROM ${prefix}.queues q), j.queue_id, p.queue_id), ${ID_MARGIN}
        FROM jobs j, payloads p
      UNION ALL SELECT pg_get_serial_sequence('${prefix}.processes', 'process_id'),
        greatest((SELECT max(p.process_id) FROM ${prefix}.processes p), j.claimed_by), ${ID_MARGIN} FROM jobs j
    )
    SELECT s.* FROM (
      SELECT h.sequence, h.number AS highest, h.margin, CASE
        WHEN has_sequence_privilege(h.sequence, 'USAGE, SELECT')
          THEN coalesce(pg_sequence_last_value(h.sequence::regclass), 0)
      END AS last
      FROM highest h WHERE h.number > 0 OFFSET 0
    ) s WHERE s.last < s.highest`
}

/** Per cent of a table's pages, of its partitions' where it has some. */
function share(prefix: string, table: string): string {
  const regclass = `'${prefix}.${table}'::regclass`
  return `SELECT least(100, 100.0 * ${SAMPLE_PAGES} * current_setting('block_size')::integer / greatest(1, coalesce(
    (SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(${regclass}) t), pg_relation_size(${regclass}))))::real`
}

/**
 * How far above its rows a sequence is set. Others may draw from it meanwhile, and `setval` waits for nobody: it could
 * only set it back if they drew this many numbers between its reading of the last one and its writing.
 */
const MARGIN = 1_000_000
/** Of numbers of queues and processes, which are drawn rarely, and are integers. */
const ID_MARGIN = 1_000

/**
 * Raises the sequences that are behind, and says which. That is always safe: nothing counts on numbers that follow one
 * another, only on each being above those before, and 2^53 fences are enough for a million jumps of a million.
 * One that is behind may not be alone, and a sample doesn't show how far: then every row is read.
 */
export async function raiseSequences(
  client: pg.ClientBase,
  schema: string,
  everyRow: boolean,
): Promise<RaisedSequence[]> {
  const ask = askOn(client)
  if (!everyRow && (await sequencesBehind(ask, schema, false)).length === 0) return []
  const raised: RaisedSequence[] = []
  for (const { sequence, last, highest, to } of await sequencesBehind(ask, schema, true)) {
    // One that was never drawn from gives its `last_value` next, which a row may have: it is behind at 1 as at 0.
    const { rows } = await client.query<{ to: string }>(
      `SELECT setval('${sequence}', greatest($1, last_value))::text AS to FROM ${sequence}
       WHERE last_value < $2 OR NOT is_called`,
      [to, highest],
    )
    if (rows.length > 0) raised.push({ sequence, from: last, to: Number(rows[0]!.to) })
  }
  return raised
}

/**
 * Before a worker starts. It does not raise them itself: that takes rights which a worker needs for nothing else.
 * @throws DatabaseError `LOCKSTEP_SEQUENCE_BEHIND` with the statements that cure it
 */
export async function requireSequences(database: Database): Promise<void> {
  const behind = await sequencesBehind((text) => database.query(text), database.schema, false)
  if (behind.length === 0) return
  const told = behind.map(({ sequence, last, highest }) => `${sequence} stands at ${last}, below ${highest}`)
  const cures = behind.map(({ sequence, to }) => `SELECT setval('${sequence}', ${to});`)
  throw new DatabaseError(
    'LOCKSTEP_SEQUENCE_BEHIND',
    `sequences are behind the numbers in their rows, so that payloads would be lost or change places (${told.join(', ')}): were tables restored or replicated without them? Run \`lockstep migrate\`, or ${cures.join(' ')}`,
  )
}
