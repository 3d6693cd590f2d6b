import { closest, distance } from 'fastest-levenshtein'
import { LockstepError, OptionError } from '../errors.ts'
import { rejectUnknownOptions, show, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { defineQueue } from '../queue.ts'
import { insertToken, readTokens, removeToken } from '../store/tokens.ts'
import {
  type ApiToken,
  digestOfToken,
  newTokenText,
  SCOPES,
  type TokenGrant,
  type TokenRate,
  type TokenScope,
} from '../token.ts'
import type { ActorOptions } from './audit.ts'

export interface NewToken extends ActorOptions {
  /** Tells tokens apart: 1 to 200 characters. The audit has it for what is done with the token. */
  readonly name: string
  /** At least one: `produce`, `consume`, `admin`. None includes another. */
  readonly scopes: readonly TokenScope[]
  /** The names of the queues that it's good for, which need not exist. Default: all. */
  readonly queues?: readonly string[] | undefined
  /** How many requests it may make in `per` seconds, over all servers. Default: any number. */
  readonly rate?: TokenRate | undefined
}

export interface CreatedToken extends ApiToken {
  /** What requests carry. It's told once: only its hash is stored. */
  readonly token: string
}

const MAX_NAME = 200
const MAX_REQUESTS = 1_000_000_000
/** Seconds. */
const A_DAY = 86_400

/** @throws OptionError; LockstepError `LOCKSTEP_BAD_QUEUE` */
export function checkNewToken(options: NewToken): TokenGrant {
  rejectUnknownOptions(options, ['name', 'scopes', 'queues', 'rate', 'by'], 'createToken')
  const { name, scopes, queues, rate } = options
  if (!isName(name))
    throw new OptionError(
      `createToken: name must be text of 1 to ${MAX_NAME} characters without control characters, not ${show(name)}`,
    )
  if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every((scope) => SCOPES.includes(scope)))
    throw new OptionError(
      `createToken: scopes must be a list of some of ${SCOPES.join(', ')}, not ${show(String(scopes))}`,
    )
  if (queues !== undefined && (!Array.isArray(queues) || queues.length === 0))
    throw new OptionError(
      `createToken: queues must be a list of names, or left out for all queues, not ${show(queues)}`,
    )
  const names = queues?.map((queue) => defineQueue(queue).name)
  return {
    name,
    scopes: [...new Set(scopes)],
    queues: names ? [...new Set(names)] : null,
    rate: rate === undefined ? null : checkRate(rate),
  }
}

function checkRate(rate: TokenRate): TokenRate {
  rejectUnknownOptions(rate, ['requests', 'per'], 'createToken: rate')
  return {
    requests: wholeNumber(rate.requests, 1, MAX_REQUESTS, 'createToken: rate: requests'),
    per: wholeNumber(rate.per, 1, A_DAY, 'createToken: rate: per'),
  }
}

/** @throws LockstepError `LOCKSTEP_TOKEN_EXISTS` */
export async function createToken(database: Database, grant: TokenGrant): Promise<CreatedToken> {
  const token = newTokenText()
  const created = await insertToken(database, grant, digestOfToken(token))
  if (created) return { ...created, token }
  throw new LockstepError(
    'LOCKSTEP_TOKEN_EXISTS',
    `there is a token with the name ${show(grant.name)}: choose another name, or delete that token first`,
  )
}

export const listTokens = readTokens

/** @throws LockstepError `LOCKSTEP_UNKNOWN_TOKEN` with the nearest name */
export async function deleteToken(database: Database, name: string): Promise<void> {
  if (await removeToken(database, name)) return
  const names = (await readTokens(database)).map((token) => token.name)
  const nearest = names.length > 0 ? closest(name, names) : undefined
  const hint =
    nearest !== undefined && distance(name, nearest) <= Math.max(2, name.length / 3)
      ? `: did you mean ${show(nearest)}?`
      : ''
  throw new LockstepError('LOCKSTEP_UNKNOWN_TOKEN', `there is no token with the name ${show(name)}${hint}`)
}

function isName(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name.trim() !== '' &&
    name.length <= MAX_NAME &&
    name.isWellFormed() &&
    !/\p{Cc}/u.test(name)
  )
}

/** @throws OptionError */
export function checkTokenName(name: unknown): string {
  if (isName(name)) return name
  throw new OptionError(`deleteToken: the name of a token must be text, not ${show(name)}`)
}
