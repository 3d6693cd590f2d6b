export const DEFAULT_POOL = 'default'

/** A token, and the pool that its prefix names. */
export interface PrefixedToken {
  readonly pool: string
  /** Empty if there is none. */
  readonly token: string
}

/** Reads `[pool:]token`. */
export function parseToken(text: string): PrefixedToken {
  const at = text.indexOf(':')
  if (at < 0) return { pool: DEFAULT_POOL, token: text }
  return { pool: text.slice(0, at) || DEFAULT_POOL, token: text.slice(at + 1) }
}

/** As administration tells a token. */
export function prefixed(pool: string, token: string): string {
  return pool === DEFAULT_POOL ? token : `${pool}:${token}`
}
