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

interface TenantLaneRow {
  readonly queue_id: number
  readonly shard: null
  readonly lane: number
}

interface TimesRow {
  readonly shard: undefined
  readonly began: number
  readonly ended: number
}

/** What a cheap look finds. */
export interface Sight {
  readonly heads: readonly Head[]
  /** The lanes that tenants have in the queues. */
  readonly tenantLanes: readonly { readonly queueId: number; readonly lane: number }[]
  /** The server's clock when it got the statement and when it had carried it out, in microseconds since 1970. */
  readonly began: number
  readonly ended: number
}

/** The cheap look: known lanes, from their cursors on, and which lanes tenants have in these queues. */
export async function look(
  database: Database,
  lanes: readonly { readonly key: LaneKey; readonly cursor: Cursor }[],
  queueIds: readonly number[] = [],
): Promise<Sight> {
  const { prefix } = database
  const rows = await database.alone<HeadRow | TenantLaneRow | TimesRow>(
    `SELECT h.queue_id, h.shard, h.lane, h.perform_in, NULL::bigint AS began, NULL::bigint AS ended
     FROM ${prefix}.look($1, $2, $3, $4, $5) h
     UNION ALL SELECT t.queue_id, NULL, t.lane, NULL, NULL, NULL FROM ${prefix}.tenant_lanes_of($6) t
     UNION ALL SELECT NULL, NULL, NULL, NULL, ${prefix}.micros(now()), ${prefix}.micros(clock_timestamp())`,
    [
      lanes.map(({ key }) => key.queueId),
      lanes.map(({ key }) => key.shard),
      lanes.map(({ key }) => key.lane),
      lanes.map(({ cursor }) => cursor.after),
      lanes.map(({ cursor }) => cursor.afterId),
      queueIds,
    ],
  )
  // The parts of a union are carried out, and come, one after the other.
  const { began, ended } = rows.pop() as TimesRow
  const heads = rows.filter((row): row is HeadRow => row.shard !== null)
  const others = rows.filter((row): row is TenantLaneRow => row.shard === null)
  return {
    heads: heads.map(headOf),
    tenantLanes: others.map((row) => ({ queueId: row.queue_id, lane: row.lane })),
    began,
    ended,
  }
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
