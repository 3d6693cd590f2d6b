import { createHash } from 'node:crypto'
import type { Database } from '../postgres/database.ts'
import { type Quota, takeQuota } from './quota.ts'

/** A token of lmstfy's API, of a namespace in a pool. */
export interface TokenKey {
  readonly pool: string
  readonly namespace: string
  readonly token: string
}

export interface TokenLimit {
  /** Requests per window; 0: any number. */
  readonly reads: number
  readonly writes: number
  /** Seconds. */
  readonly per: number
}

export interface KnownToken {
  readonly exists: boolean
  readonly limit: TokenLimit | null
}

/** Tokens are looked up by it, so the time that a look takes tells nothing of a token that is nearly right. */
export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** What is known of tokens: one for each key. */
export async function lookUpTokens(database: Database, keys: readonly TokenKey[]): Promise<KnownToken[]> {
  return database.query<KnownToken>(
    `SELECT t.token IS NOT NULL AS exists,
       CASE WHEN l.per IS NOT NULL THEN json_build_object('reads', l.reads, 'writes', l.writes, 'per', l.per) END AS "limit"
     FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS k(pool, namespace, digest, place)
     LEFT JOIN ${database.prefix}.lmstfy_tokens t ON t.pool = k.pool AND t.namespace = k.namespace AND t.digest = k.digest
     LEFT JOIN ${database.prefix}.lmstfy_limits l ON l.pool = k.pool AND l.namespace = k.namespace AND l.digest = k.digest
     ORDER BY k.place`,
    [
      keys.map(({ pool }) => pool),
      keys.map(({ namespace }) => namespace),
      keys.map(({ token }) => digestOf(token)),
    ],
  )
}

/** Resolves to false if there is one already. */
export async function addToken(
  database: Database,
  { pool, namespace, token }: TokenKey,
  description: string,
): Promise<boolean> {
  const rows = await database.query(
    `INSERT INTO ${database.prefix}.lmstfy_tokens (pool, namespace, digest, token, description) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT DO NOTHING RETURNING 1 AS added`,
    [pool, namespace, digestOf(token), token, description],
  )
  return rows.length > 0
}

export async function listTokens(
  database: Database,
  pool: string,
  namespace: string,
): Promise<{ readonly token: string; readonly description: string }[]> {
  return database.query(
    `SELECT token, description FROM ${database.prefix}.lmstfy_tokens WHERE pool = $1 AND namespace = $2 ORDER BY created_at`,
    [pool, namespace],
  )
}

/** With its limit. */
export async function deleteToken(database: Database, { pool, namespace, token }: TokenKey): Promise<void> {
  await database.query(
    `WITH gone AS (DELETE FROM ${database.prefix}.lmstfy_limits WHERE pool = $1 AND namespace = $2 AND digest = $3)
     DELETE FROM ${database.prefix}.lmstfy_tokens WHERE pool = $1 AND namespace = $2 AND digest = $3`,
    [pool, namespace, digestOf(token)],
  )
}

/** `replace`: also where there is one. Resolves to false if there is one already that stays. */
export async function setLimit(
  database: Database,
  { pool, namespace, token }: TokenKey,
  { reads, writes, per }: TokenLimit,
  replace: boolean,
): Promise<boolean> {
  const conflict = replace
    ? 'UPDATE SET reads = excluded.reads, writes = excluded.writes, per = excluded.per'
    : 'NOTHING'
  const rows = await database.query(
    `INSERT INTO ${database.prefix}.lmstfy_limits (pool, namespace, digest, token, reads, writes, per)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (pool, namespace, digest) DO ${conflict} RETURNING 1 AS stored`,
    [pool, namespace, digestOf(token), token, reads, writes, per],
  )
  return rows.length > 0
}

export async function deleteLimit(database: Database, { pool, namespace, token }: TokenKey): Promise<void> {
  await database.query(
    `DELETE FROM ${database.prefix}.lmstfy_limits WHERE pool = $1 AND namespace = $2 AND digest = $3`,
    [pool, namespace, digestOf(token)],
  )
}

export async function listLimits(database: Database): Promise<(TokenKey & TokenLimit)[]> {
  return database.query(
    `SELECT pool, namespace, token, reads, writes, per FROM ${database.prefix}.lmstfy_limits ORDER BY pool, namespace, token`,
  )
}

export type Side = 'read' | 'write'

/** Takes a request, if there is one left. */
export function takeRequest(
  database: Database,
  key: TokenKey,
  side: Side,
  limit: { readonly most: number; readonly per: number },
): Promise<Quota> {
  return takeQuota(database, subjectOf(key, side), limit, 1)
}

/** Gives a request back to the window that it was taken from. */
export async function refundQuota(
  database: Database,
  key: TokenKey,
  side: Side,
  window: number,
): Promise<void> {
  await database.query(
    `UPDATE ${database.prefix}.request_windows SET used = greatest(used - 1, 0) WHERE subject = $1 AND begins_at = ${database.prefix}.from_micros($2)`,
    [subjectOf(key, side), window],
  )
}

function subjectOf({ pool, namespace, token }: TokenKey, side: Side): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([pool, namespace, token, side]))
    .digest()
}
