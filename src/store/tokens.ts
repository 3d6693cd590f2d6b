import type { Database } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import type { ApiToken, TokenGrant } from '../token.ts'
import { type InMs, msText } from './time.ts'

const COLUMNS = `t.name, t.scopes, t.queues, t.rate_requests, t.rate_per, ${msText('t.created_at')} AS "createdAt"`

interface RateColumns {
  readonly rate_requests: number | null
  readonly rate_per: number | null
}

type Row = InMs<Omit<ApiToken, 'rate'>, 'createdAt'> & RateColumns

/** Resolves to undefined if there is one with this name. */
export async function insertToken(
  database: Database,
  { name, scopes, queues, rate }: TokenGrant,
  digest: Buffer,
): Promise<ApiToken | undefined> {
  try {
    const [row] = await database.query<Row>(
      `INSERT INTO ${database.prefix}.api_tokens AS t (name, digest, scopes, queues, rate_requests, rate_per)
       VALUES ($1, $2, $3, $4, $5, $6) RETURNING ${COLUMNS}`,
      [name, digest, scopes, queues, rate?.requests ?? null, rate?.per ?? null],
    )
    return tokenOf(row!)
  } catch (error) {
    if (hasCode(error, '23505')) return undefined
    throw error
  }
}

/** All, by name. */
export async function readTokens(database: Database): Promise<ApiToken[]> {
  const rows = await database.query<Row>(
    `SELECT ${COLUMNS} FROM ${database.prefix}.api_tokens t ORDER BY t.name`,
  )
  return rows.map(tokenOf)
}

/** Returns whether there was one. */
export async function removeToken(database: Database, name: string): Promise<boolean> {
  const rows = await database.query(
    `DELETE FROM ${database.prefix}.api_tokens WHERE name = $1 RETURNING name`,
    [name],
  )
  return rows.length > 0
}

/** What these tokens allow, by their digests in hexadecimal; without those that do not exist. */
export async function findTokens(
  database: Database,
  digests: readonly Buffer[],
): Promise<Map<string, TokenGrant>> {
  const rows = await database.call<Omit<TokenGrant, 'rate'> & RateColumns & { digest: Buffer }>(
    'find_tokens',
    [digests],
  )
  return new Map(rows.map(({ digest, ...row }) => [digest.toString('hex'), withRate(row)]))
}

function tokenOf({ createdAt, ...row }: Row): ApiToken {
  return { ...withRate(row), createdAt: new Date(createdAt) }
}

function withRate<Token extends RateColumns>({ rate_requests, rate_per, ...token }: Token) {
  return { ...token, rate: rate_requests === null ? null : { requests: rate_requests, per: rate_per! } }
}
