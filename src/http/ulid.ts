import { randomFillSync } from 'node:crypto'

/** Crockford's, as ULIDs have it (github.com/ulid/spec). */
export const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
export const TIME_DIGITS = 10
export const RANDOM_DIGITS = 16
const POOL = Buffer.allocUnsafe(RANDOM_DIGITS * 256)
let used = POOL.length

/** ms since 1970 in 10 digits, and 80 random bits in 16. */
export function newUlid(now: number): string {
  if (used >= POOL.length) {
    randomFillSync(POOL)
    used = 0
  }
  let id = ''
  for (let rest = now, at = 0; at < TIME_DIGITS; at += 1) {
    id = DIGITS[rest % 32] + id
    rest = Math.floor(rest / 32)
  }
  for (let at = 0; at < RANDOM_DIGITS; at += 1) id += DIGITS[POOL[used + at]! & 31]
  used += RANDOM_DIGITS
  return id
}
