import { OptionError } from '../../errors.ts'
import type { DeadFilter, JobFilter } from '../../index.ts'
import { isPlain, rejectUnknownOptions, show, trueOrFalse, wholeNumber } from '../../options.ts'
import { LEAST_RETRY, MOST_RETRY, timeOf } from '../../serving/values.ts'

/** @throws OptionError */
export function bodyOf(text: string): Record<string, unknown> {
  let body: unknown
  try {
    body = text.trim() === '' ? {} : JSON.parse(text)
  } catch {
    throw new OptionError('the body is not JSON')
  }
  if (isPlain(body)) return body as Record<string, unknown>
  throw new OptionError(`the body must be a JSON object, not ${show(body)}`)
}

/**
 * What of a queue an action is done to: these `ids`, what matches a `filter`, or `all`; exactly one of them, since a
 * forgotten filter must not match everything.
 * @throws OptionError
 */
export function jobChoiceOf(body: Record<string, unknown>): JobFilter {
  const filter = choiceOf(body)
  return converted(filter, ['performIn'], { retryCount: checkRetryCount }) as JobFilter
}

/** @throws OptionError */
export function deadChoiceOf(body: Record<string, unknown>): DeadFilter {
  const filter = choiceOf(body)
  // Whether a digest matches would tell a payload to whoever guesses it.
  if (Object.hasOwn(filter, 'digests'))
    throw new OptionError('filter: digests is not taken here: name dead payloads by `keys`')
  return converted(filter, ['diedAt'], {}) as DeadFilter
}

function choiceOf(body: Record<string, unknown>): Record<string, unknown> {
  rejectUnknownOptions(body, ['ids', 'filter', 'all'], 'the body')
  const { ids, filter, all } = body
  const chosen = Object.keys(body)
  if (chosen.length !== 1) {
    throw new OptionError(
      'the body must say what to act on, by one of `ids`, `filter`, or `all: true` for everything in the queue',
    )
  }
  if (ids !== undefined) return { ids }
  if (all !== undefined) {
    if (all !== true) throw new OptionError(`all must be true, not ${show(all)}`)
    return {}
  }
  if (!isPlain(filter)) throw new OptionError(`filter must be an object, not ${show(filter)}`)
  if (Object.keys(filter as object).length === 0)
    throw new OptionError('filter must not be empty: to act on everything in the queue, say `all: true`')
  return filter as Record<string, unknown>
}

type Check = (value: unknown, what: string) => unknown

/** JSON has no Dates. What is wrong otherwise is told by what uses the filter. */
function converted(
  filter: Record<string, unknown>,
  times: readonly string[],
  checks: Readonly<Record<string, Check>>,
): Record<string, unknown> {
  const converters = { ...Object.fromEntries(times.map((name) => [name, timeOf as Check])), ...checks }
  const entries = Object.entries(filter).map(([name, value]) => {
    const convert = Object.hasOwn(converters, name) ? converters[name] : undefined
    if (!convert || !isPlain(value)) return [name, value]
    const bounds = Object.entries(value as object)
    return [name, Object.fromEntries(bounds.map(([end, bound]) => [end, convert(bound, `${name}.${end}`)]))]
  })
  return Object.fromEntries(entries)
}

function checkRetryCount(value: unknown, what: string): number {
  return wholeNumber(value, LEAST_RETRY, MOST_RETRY, what)
}

/** @throws OptionError */
export function shardsOf(body: Record<string, unknown>): number {
  rejectUnknownOptions(body, ['shards'], 'the body')
  return wholeNumber(body.shards, 1, 16_384, 'shards')
}

/** @throws OptionError */
export function withJobsOf(body: Record<string, unknown>): boolean {
  rejectUnknownOptions(body, ['withJobs'], 'the body')
  return trueOrFalse(body.withJobs ?? false, 'withJobs')
}

/** @throws OptionError unless there is nothing in the body */
export function requireEmpty(body: Record<string, unknown>): void {
  rejectUnknownOptions(body, [], 'the body')
}
