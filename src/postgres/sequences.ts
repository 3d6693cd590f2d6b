import type pg from 'pg'
import { DatabaseError } from '../errors.ts'
import type { Database } from './database.ts'
import { type Ask, askOn } from './release.ts'
import { quoteIdentifier } from './schema-name.ts'

/** A sequence that was behind its rows and was raised. */
export interface RaisedSequence {
  /** Such as `lockstep.fences`, quoted if necessary. */
  readonly sequence: string
  /** Its value before. */
  readonly from: number
  /** Its value now. */
  readonly to: number
}

interface Behind {
  readonly sequence: string
  readonly last: number
  /** The highest number in a row. */
  readonly highest: number
  /** The number to set the sequence to. */
  readonly to: number
}

/** Pages to read of each large table for a sample, which takes a few ms. */
const SAMPLE_PAGES = 250

/**
 * Finds sequences below the numbers in their rows. This happens when tables are restored or replicated without them,
 * above all by logical replication, which leaves sequences at 1. Then a fence below the payloads' would lose them
 * unnoticed; a push number below others breaks their order; a process with the number of a dead one takes its claims
 * for its own, and never rescues them; and a queue may get the number of another queue's jobs.
 *
 * No index has these columns, and one would slow every claim. So this samples large tables by whole pages: restored rows
 * are most of a table, and show in any part of it. A claim finds what a sample misses, since it compares its fence with
 * the rows it has locked. Only `everyRow` reads all rows.
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
 * Ignores a sequence that the role may not read. The snapshot of the rows is older than the reading of the sequence, so
 * that concurrent work can't make the sequence seem behind.
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

/** The percentage of the pages of a table, including its partitions, to sample. */
function share(prefix: string, table: string): string {
  const regclass = `'${prefix}.${table}'::regclass`
  return `SELECT least(100, 100.0 * ${SAMPLE_PAGES} * current_setting('block_size')::integer / greatest(1, coalesce(
    (SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(${regclass}) t), pg_relation_size(${regclass}))))::real`
}

/**
 * How far above its rows a sequence is set. Others may draw from it meanwhile, and `setval` does not wait for them. It
 * could set the sequence back only if they drew this many numbers between its read and its write.
 */
const MARGIN = 1_000_000
/** For numbers of queues and processes, which are drawn rarely and are integers. */
const ID_MARGIN = 1_000

/**
 * Raises the sequences that are behind, and returns them. That is always safe: nothing needs consecutive numbers, only
 * rising ones, and 2^53 fences are enough for a million jumps of a million. If a sample finds one behind, others may be
 * too, and a sample does not show how far: then this reads every row.
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
    // A sequence that was never drawn from returns its `last_value` next, which a row may have: so at 1 it is behind too.
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
 * Called before a worker starts. A worker does not raise sequences, since it would need extra rights for that alone.
 * @throws DatabaseError `LOCKSTEP_SEQUENCE_BEHIND` with the statements that fix it
 */
export async function requireSequences(database: Database): Promise<void> {
  const behind = await sequencesBehind((text) => database.query(text), database.schema, false)
  if (behind.length === 0) return
  const told = behind.map(({ sequence, last, highest }) => `${sequence} stands at ${last}, below ${highest}`)
  const cures = behind.map(({ sequence, to }) => `SELECT setval('${sequence}', ${to});`)
  throw new DatabaseError(
    'LOCKSTEP_SEQUENCE_BEHIND',
    `sequences are behind the numbers in their rows, so payloads would be lost or change places (${told.join(', ')}): were tables restored or replicated without them? Run \`lockstep migrate\`, or ${cures.join(' ')}`,
  )
}
