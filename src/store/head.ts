import type { Database } from '../postgres/database.ts'
import type { Cursor, LaneKey } from './claim.ts'

/** When the next job of a lane is due, in microseconds since 1970. */
export interface Head extends LaneKey {
  readonly performIn: number
}

interface HeadRow {
  queue_id: number
  shard: number
  lane: number
  perform_in: number
}

/** The cheap look: known lanes, from their cursors on. */
export async function look(
  database: Database,
  lanes: readonly { readonly key: LaneKey; readonly cursor: Cursor }[],
): Promise<Head[]> {
  const rows = await database.call<HeadRow>('look', [
    lanes.map(({ key }) => key.queueId),
    lanes.map(({ key }) => key.shard),
    lanes.map(({ key }) => key.lane),
    lanes.map(({ cursor }) => cursor.after),
    lanes.map(({ cursor }) => cursor.afterId),
  ])
  return rows.map(headOf)
}

/** The full look: every lane of the shards, from the beginning, including jobs that dead processes left. */
export async function survey(
  database: Database,
  processId: number,
  shards: readonly { readonly queueId: number; readonly shard: number }[],
): Promise<Head[]> {
  const rows = await database.call<HeadRow>('survey', [
    processId,
    shards.map(({ queueId }) => queueId),
    shards.map(({ shard }) => shard),
  ])
  return rows.map(headOf)
}

/** The full look as a part of a statement: $2 is the process, $3 and $4 are the shards' queues and numbers. */
export function surveyText(prefix: string): string {
  return `SELECT h.queue_id AS "queueId", h.shard, h.lane, h.perform_in AS "performIn"
    FROM ${prefix}.survey($2::integer, $3::integer[], $4::integer[]) h`
}

function headOf(row: HeadRow): Head {
  return { queueId: row.queue_id, shard: row.shard, lane: row.lane, performIn: row.perform_in }
}
