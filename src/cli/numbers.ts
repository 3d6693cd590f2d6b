import { InvalidArgumentError } from 'commander'
import { numberOrMoment } from './enqueue/moment.ts'

/** For an option that takes a whole number of at least `min`. */
export function wholeNumberOption(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^[+-]?\d+$/.test(text) && number >= min && number <= max) return number
    const limit = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It must be a whole number ${limit}.`)
  }
}

/** For an option that takes any number. */
export function numberOption(text: string): number {
  const number = numberOrMoment(text)
  if (number !== undefined) return number
  throw new InvalidArgumentError('It must be a number, or a time such as 2011-10-11T13:45:40Z.')
}

/** For an option that takes a time: ISO 8601, ms since 1970, or `now`. */
export function timeOption(text: string): Date {
  const ms = text === 'now' ? Date.now() : numberOrMoment(text)
  if (ms !== undefined && Math.abs(ms) <= 8.64e15) return new Date(ms)
  throw new InvalidArgumentError('It must be a time such as 2011-10-11T13:45:40Z, ms since 1970, or now.')
}

/** For an option that may be repeated. */
export function collect(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value]
}
