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

/** The full look: every lane of the shards, from the beginning, with what dead processes left. */
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

function headOf(row: HeadRow): Head {
  return { queueId: row.queue_id, shard: row.shard, lane: row.lane, performIn: row.perform_in }
}

/** The server's clock in microseconds since 1970: dueness is decided by it alone. */
export async function serverNow(database: Database): Promise<number> {
  const [row] = await database.query<{ now: number }>(
    `SELECT ${database.prefix}.micros(clock_timestamp()) AS now`,
  )
  return row!.now
}
