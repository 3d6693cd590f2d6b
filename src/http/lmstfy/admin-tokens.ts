import { isStorable } from '../../options.ts'
import {
  addToken,
  deleteLimit,
  deleteToken,
  listLimits,
  listTokens,
  lookUpTokens,
  setLimit,
  type TokenKey,
  type TokenLimit,
} from '../../store/lmstfy-access.ts'
import { type Call, json, type Reply } from '../call.ts'
import { newUlid } from '../ulid.ts'
import type { AdminParts } from './admin.ts'
import { problemOfNamespace } from './names.ts'
import { DEFAULT_POOL, parseToken, prefixed } from './token.ts'

const LARGEST_FORM = 64 * 1024
const SHORTEST_TOKEN = 20
/** Seconds: a year. The end of a window must be a time that Postgres can hold. */
const LONGEST_INTERVAL = 365 * 24 * 3600
const NO_POOL = json(400, { error: 'the pool was not exists' })
const INVALID_TOKEN = json(400, { error: 'invalid token' })

export type Limiter = Readonly<Record<'read' | 'write' | 'interval', number>>

export async function createToken(
  { pools, database, access }: AdminParts,
  call: Call,
  namespace: string,
): Promise<Reply> {
  const form = new URLSearchParams((await call.body(LARGEST_FORM))?.toString() ?? '')
  const field = (name: string) => form.get(name) ?? call.query.get(name) ?? ''
  const [description, wanted] = [field('description'), field('token')]
  if (description === '' || !isStorable(description)) return json(400, { error: 'invalid description' })
  if (!isStorable(wanted)) return INVALID_TOKEN
  if (wanted !== '' && wanted.length < SHORTEST_TOKEN)
    return json(400, { error: 'the user token was too short' })
  const problem = problemOfNamespace(namespace)
  if (problem) return json(400, { error: problem })
  const named = wanted.split(':').length === 2 ? parseToken(wanted) : undefined
  const pool = named?.pool ?? poolOf(call)
  const token = named?.token ?? (wanted === '' ? newUlid(Date.now()) : wanted)
  if (!pools.has(pool)) return NO_POOL
  const isNew = await addToken(database, { pool, namespace, token }, description)
  if (!isNew) return json(400, { error: 'the token has already existed' })
  access.forget()
  return json(201, { token: prefixed(pool, token) })
}

/** A pool that is named goes before its tokens, even the default one. */
export async function tokensOf(
  { pools, database }: AdminParts,
  call: Call,
  namespace: string,
): Promise<Reply> {
  const pool = poolOf(call)
  if (!pools.has(pool)) return NO_POOL
  const tokens = await listTokens(database, pool, namespace)
  const shown = (token: string) => (call.query.get('pool') ? `${pool}:${token}` : token)
  return json(200, {
    tokens: Object.fromEntries(tokens.map(({ token, description }) => [shown(token), description])),
  })
}

export async function removeToken(
  { pools, database, access }: AdminParts,
  _: Call,
  namespace: string,
  text: string,
): Promise<Reply> {
  const key = { namespace, ...parseToken(text) }
  if (!pools.has(key.pool)) return NO_POOL
  await deleteToken(database, key)
  access.forget()
  return { status: 204 }
}

export function addLimit(parts: AdminParts, call: Call, namespace: string, text: string): Promise<Reply> {
  return storeLimit(parts, call, { namespace, ...parseToken(text) }, false)
}

export function replaceLimit(parts: AdminParts, call: Call, namespace: string, text: string): Promise<Reply> {
  return storeLimit(parts, call, { namespace, ...parseToken(text) }, true)
}

export async function limitOf(
  { database }: AdminParts,
  _: Call,
  namespace: string,
  text: string,
): Promise<Reply> {
  const [known] = await lookUpTokens(database, [{ namespace, ...parseToken(text) }])
  return known?.limit ? json(200, limiterOf(known.limit)) : json(404, null)
}

export async function removeLimit(
  { database, access }: AdminParts,
  _: Call,
  namespace: string,
  text: string,
): Promise<Reply> {
  await deleteLimit(database, { namespace, ...parseToken(text) })
  access.forget()
  return json(200, { msg: 'success' })
}

export async function limits({ database }: AdminParts): Promise<Reply> {
  const all = await listLimits(database)
  return json(
    200,
    all.map(({ pool, namespace, token, ...limit }) => ({
      namespace,
      token: prefixed(pool, token),
      limiter: limiterOf(limit),
    })),
  )
}

async function storeLimit(
  { database, access }: AdminParts,
  call: Call,
  key: TokenKey,
  replace: boolean,
): Promise<Reply> {
  const limiter = parsed(await call.body(LARGEST_FORM))
  if (typeof limiter === 'string') return json(400, { error: limiter })
  const { read, write, interval } = limiter
  if (!isStorable(key.token)) return INVALID_TOKEN
  if (read === 0 && write === 0) return json(400, { limiter })
  if (interval === 0) return json(400, { error: 'interval should be > 0' })
  if (interval > LONGEST_INTERVAL) return json(400, { error: `interval should be <= ${LONGEST_INTERVAL}` })
  if (Math.min(read, write, interval) < 0)
    return json(500, { error: "read, write and interval can't be negative" })
  const stored = await setLimit(database, key, { reads: read, writes: write, per: interval }, replace)
  if (!stored) return json(500, { error: `throttler token(${key.token}) has already exists` })
  access.forget()
  return json(replace ? 200 : 201, { limiter })
}

/** Or what is wrong with it. A missing number is 0. */
function parsed(body: Buffer | undefined): Limiter | string {
  try {
    const { read = 0, write = 0, interval = 0 } = JSON.parse(body?.toString() ?? '') as Partial<Limiter>
    if ([read, write, interval].every(Number.isSafeInteger)) return { read, write, interval }
    return 'read, write and interval must be whole numbers'
  } catch {
    return 'the body must be a JSON object with read, write and interval'
  }
}

function limiterOf({ reads, writes, per }: TokenLimit): Limiter {
  return { read: reads, write: writes, interval: per }
}

function poolOf({ query }: Call): string {
  return query.get('pool') || DEFAULT_POOL
}
