import { randomFillSync } from 'node:crypto'

/** Crockford's, as ULIDs have it (github.com/ulid/spec). */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_DIGITS = 10
const RANDOM_DIGITS = 16
const POOL = Buffer.allocUnsafe(RANDOM_DIGITS * 256)
let used = POOL.length

const ID = new RegExp(`^1?[${DIGITS}]{${TIME_DIGITS + RANDOM_DIGITS}}$`)

/** Before the ULID of a job with attributes. */
const VERSION = '1'

/** A ULID. In front of it the version, if the job has attributes. */
export function newJobId(now: number, hasAttributes: boolean): string {
  return (hasAttributes ? VERSION : '') + newUlid(now)
}

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

/** Whether it has the form of an id that `newJobId` makes. */
export function isJobId(text: string): boolean {
  return ID.test(text)
}

/** When the job was published, in ms since 1970; undefined for an id that isn't lmstfy's. */
export function timeOf(id: string): number | undefined {
  const ulid = id.length === 27 ? id.slice(1) : id
  if (ulid.length !== TIME_DIGITS + RANDOM_DIGITS) return undefined
  let time = 0
  for (const digit of ulid.slice(0, TIME_DIGITS)) {
    const value = DIGITS.indexOf(digit)
    if (value < 0) return undefined
    time = time * 32 + value
  }
  return time
}
