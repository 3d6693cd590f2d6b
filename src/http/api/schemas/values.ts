import { z } from 'zod'
import type { OptionError } from '../../../errors.ts'
import { isPlain, isStorable, STORABLE_TEXT, show } from '../../../options.ts'
import { timeOf } from '../../../serving/values.ts'

export const text = z.string()
/** What Postgres can hold. */
export const storable = z.string().refine(isStorable, { error: `must be ${STORABLE_TEXT}` })
export const count = z.int().min(0)
export const time = z.iso.datetime()

export const QUEUE_NAME = 'The name of a queue: 1 to 511 bytes.'
export const queueName = z.string().min(1).meta({ description: QUEUE_NAME })

/** An object as it came. A record of zod's would lose a member called `__proto__`, and say nothing. */
export const object = z
  .unknown()
  .refine(isPlain, { error: ({ input }) => `must be an object, not ${show(input)}`, abort: true })
  .meta({ type: 'object', additionalProperties: {} })

/** As morgues tell it. */
export const deadKey = z.string().regex(/^[\da-f]{32}$/, { error: 'must be 32 hexadecimal digits' })

/** Keys are told apart among the payloads of one id. */
export function hasIdsForKeys(filter: { readonly ids?: unknown; readonly keys?: unknown }): boolean {
  return filter.keys === undefined || filter.ids !== undefined
}
export const NEEDS_IDS = { error: 'need the `ids` of their jobs beside them', path: ['keys'] }

/** A point in time, from text or ms. */
export const moment = z
  .union([z.string(), z.number()], {
    error: 'must be a time, such as 2011-10-11T13:45:40Z, or ms since 1970',
  })
  .transform((value, { issues }) => {
    try {
      return timeOf(value, '')
    } catch (error) {
      issues.push({ code: 'custom', message: (error as OptionError).message.trim(), input: value })
      return z.NEVER
    }
  })
  .meta({ description: 'ISO 8601 with its zone, or ms since 1970.' })

const MAX_FENCE_DIGITS = 16

/** Text, since a number of this size loses digits in some languages. */
export const fence = z
  .string({ error: 'must be text, as the claim told it' })
  .regex(/^\d+$/, { error: 'must be text of digits, as the claim told it' })
  .max(MAX_FENCE_DIGITS, { error: 'is no fence of a claim' })
  .transform((digits, { issues }) => {
    const number = Number(digits)
    if (Number.isSafeInteger(number)) return number
    issues.push({ code: 'custom', message: 'is no fence of a claim', input: digits })
    return z.NEVER
  })
  .meta({ description: 'The number of the claim, as text: it may be beyond what numbers in JSON hold.' })

export const WEEK = 7 * 24 * 3600

/** Seconds; a fraction is taken to the ms. */
export const lease = z.number().min(0).max(WEEK).default(30).meta({
  description: 'Seconds until the claim ends unless it is extended or settled.',
})

export function toMs(seconds: number): number {
  return Math.round(seconds * 1000)
}
