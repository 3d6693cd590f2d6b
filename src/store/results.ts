import type { Database } from '../postgres/database.ts'
import { type Callable, callThrough, firstValue, type Through } from './through.ts'

/** What a round has returned, to be kept with its completion. */
export interface KeptResult {
  /** JSON, as jsonb can hold it. */
  readonly json: string
  /** How long it's kept. */
  readonly seconds: number
}

/** The last arguments of complete_with_results, but one. */
export function columnsOfResults(
  results: readonly (KeptResult | undefined)[],
): [json: (string | null)[], seconds: (number | null)[]] {
  return [results.map((kept) => kept?.json ?? null), results.map((kept) => kept?.seconds ?? null)]
}

/** What names the result of a push. */
export interface ResultKey {
  readonly queue: string
  readonly id: string
  /** Of `roundOf`. */
  readonly round: string
}

/** What has become of a push; see the SQL function `result`. */
export interface ResultRow {
  readonly state: 'completed' | 'dead' | 'waiting' | 'working' | 'gone'
  /** JSON; null unless it's completed. */
  readonly result: string | null
  readonly error: string | null
  readonly retry_count: number | null
  readonly ended_at: Date | null
}

const ROUND_OF: Callable = { kind: 'value', name: 'round_of', types: ['text', 'text', 'jsonb'] }

/** Which round will take a payload that was pushed in `tx` just now. */
export async function roundOf(
  database: Database,
  queue: string,
  id: string,
  payload: string,
  tx: Through,
): Promise<string> {
  return firstValue(await callThrough(database, tx, ROUND_OF, [queue, id, payload])) as string
}

/** One row for each key, in their order. */
export async function findResults(database: Database, keys: readonly ResultKey[]): Promise<ResultRow[]> {
  return database.query<ResultRow>(
    `SELECT r.state, r.result::text AS result, r.error, r.retry_count, r.ended_at
     FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(queue, id, round, place)
     CROSS JOIN LATERAL ${database.prefix}.result(k.queue, k.id, k.round) r
     ORDER BY k.place`,
    [keys.map(({ queue }) => queue), keys.map(({ id }) => id), keys.map(({ round }) => round)],
  )
}

/** Deletes a bounded part of the results that are kept no longer, and returns how many. */
export async function trimResults(database: Database): Promise<number> {
  const [row] = await database.call<{ trim_results: number }>('trim_results', [])
  return row!.trim_results
}
