import { createHash, randomBytes } from 'node:crypto'

/** What a token of the HTTP API is good for: pushing; claiming and settling; looking at a queue, and steering it. */
export type TokenScope = 'produce' | 'consume' | 'admin'

export const SCOPES: readonly TokenScope[] = ['produce', 'consume', 'admin']

/** So many requests in `per` seconds, over all servers: a window of time begins with its first request. */
export interface TokenRate {
  readonly requests: number
  /** Seconds. */
  readonly per: number
}

/** A token of the HTTP API; without what it is made of, which nobody knows but its holder. */
export interface ApiToken {
  readonly name: string
  readonly scopes: readonly TokenScope[]
  /** The queues that it's good for; null: all. */
  readonly queues: readonly string[] | null
  /** How many requests it may make; null: any number. */
  readonly rate: TokenRate | null
  /** By the server's clock. */
  readonly createdAt: Date
}

/** What a token allows. */
export type TokenGrant = Omit<ApiToken, 'createdAt'>

/** Whoever searches code and logs for secrets finds tokens by it. */
const PREFIX = 'lockstep_'
/** 256 random bits in base64url. */
const TOKEN = /^lockstep_[\w-]{43}$/

export function newTokenText(): string {
  return `${PREFIX}${randomBytes(32).toString('base64url')}`
}

export function looksLikeToken(text: string): boolean {
  return TOKEN.test(text)
}

/**
 * What is stored of a token, and what it's looked up by. A token is 256 random bits, so its hash needs neither salt nor
 * stretching. And the time of a look-up tells nobody how much of a guess was right: that compares hashes, and who changes a
 * guess can't choose how its hash changes.
 */
export function digestOfToken(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
