import { DIGITS, newUlid, RANDOM_DIGITS, TIME_DIGITS } from '../ulid.ts'

const ID = new RegExp(`^1?[${DIGITS}]{${TIME_DIGITS + RANDOM_DIGITS}}$`)

/** Before the ULID of a job with attributes. */
const VERSION = '1'

/** A ULID. In front of it the version, if the job has attributes. */
export function newJobId(now: number, hasAttributes: boolean): string {
  return (hasAttributes ? VERSION : '') + newUlid(now)
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
