import { z } from 'zod'
import { LEAST_RETRY, MOST_RETRY } from '../../../serving/values.ts'
import { strict } from './strict.ts'
import { count, deadKey, hasIdsForKeys, moment, NEEDS_IDS, storable, text, time } from './values.ts'

const range = <Name extends string, T extends z.ZodType>(name: Name, value: T) =>
  ({ [`${name}.from`]: value.optional(), [`${name}.to`]: value.optional() }) as {
    [End in `${Name}.${'from' | 'to'}`]: z.ZodOptional<T>
  }

const ids = {
  ids: z.array(storable).optional().meta({ description: 'These ids; repeat it for several.' }),
  ...range('id', storable),
  tenant: storable.optional().meta({ description: 'Of this tenant; empty: of none.' }),
}
const retryCount = z.int().min(LEAST_RETRY).max(MOST_RETRY)
const page = {
  direction: z.enum(['asc', 'desc']).optional(),
  after: storable.optional().meta({ description: 'The `next` of an earlier page with the same `by`.' }),
  limit: z.int().min(1).max(1_000).default(100),
}
const MAX_LENGTH = 12 * 1024 * 1024
const length = (most: number) =>
  z.int().min(0).max(MAX_LENGTH).default(most).meta({
    description: 'Characters: a payload whose JSON is longer is left out, and marked as `cut`.',
  })
const payloads = (most: number) =>
  z.int().min(0).max(1_000).default(most).meta({ description: 'Most payloads of a job.' })

/** Of a list, in which each job may have any number of payloads, of up to 8 MiB. */
const SHORT = { payloads: payloads(10), length: length(10_000) }
const LONG = { payloads: payloads(1_000), length: length(MAX_LENGTH) }

export const findQuery = strict({
  ...ids,
  ...range('perform_in', moment),
  ...range('retry_count', retryCount),
  state: z.enum(['waiting', 'working']).optional(),
  by: z.enum(['perform_in', 'id', 'retry_count']).optional(),
  ...page,
  ...SHORT,
})

export const deadQuery = strict({
  ...ids,
  ...range('died_at', moment),
  ...range('score', z.number()),
  keys: z.array(deadKey).optional().meta({ description: 'Payloads with these keys, of these `ids`.' }),
  by: z.enum(['died_at', 'id', 'score']).optional(),
  ...page,
  length: SHORT.length,
}).refine(hasIdsForKeys, NEEDS_IDS)

export const jobQuery = strict(LONG)
export const peekQuery = strict({ count: z.int().min(1).max(1_000).default(1), ...SHORT })
export const noQuery = strict({})

const payload = {
  payload: z.unknown().meta({ description: 'Null if it is `cut`.' }),
  cut: z.boolean().meta({ description: 'It is longer than `length`.' }),
}
const headers = z.record(z.string(), z.unknown()).nullable()

export const jobEntry = strict(
  {
    id: text,
    state: z.enum(['waiting', 'working']),
    shard: count,
    lane: count,
    tenant: text.nullable(),
    perform_in: time,
    retry_count: z.int().min(-1),
    crashes: count,
    error: text.nullable(),
    claimed_at: time.nullable(),
    process: count.nullable().meta({ description: 'Who has it in work; 0: whoever claimed it here.' }),
    lease_ends_at: time.nullable(),
    fence: text.nullable(),
    payload_count: count,
    payloads: z.array(
      strict({
        ...payload,
        score: z.number(),
        headers,
        expires_in: time.nullable().meta({ description: 'Null: never.' }),
      }),
    ),
  },
  'JobEntry',
)

export const deadPayload = strict(
  {
    id: text,
    key: text.meta({ description: 'Names it among the dead payloads of its id.' }),
    tenant: text.nullable(),
    score: z.number(),
    headers,
    error: text.nullable(),
    died_at: time,
    ...payload,
  },
  'DeadPayload',
)

const next = text.nullable().meta({ description: 'For `after`; null on the last page.' })

export const foundJobs = strict({ jobs: z.array(jobEntry), next }, 'FoundJobs')
export const oneJob = strict(
  {
    jobs: z.array(jobEntry).min(1).max(2).meta({
      description: 'Two if it was pushed while it is in work: that waits for the next round.',
    }),
  },
  'OneJob',
)
export const peeked = strict({ jobs: z.array(jobEntry) }, 'Peeked')
export const foundDead = strict({ payloads: z.array(deadPayload), next }, 'FoundDead')

const counts = {
  waiting: count,
  due: count,
  working: count,
  fresh: count.meta({ description: 'Never failed.' }),
  retrying: count,
  dead: count.meta({ description: 'Payloads in the morgue.' }),
  lag: z.number().min(0).meta({ description: 'Seconds since the oldest due job became due.' }),
  processed: count,
  failed: count,
  expired: count.meta({ description: 'Payloads that were not handed over in time.' }),
}

export const queueStats = strict(
  { queue: text, shards: count, paused_at: time.nullable(), ...counts },
  'QueueStats',
)

const at = time.meta({ description: 'When it was counted: counts are kept for a while, and shared.' })

export const allStats = strict({ at, queues: z.array(queueStats) }, 'AllStats')
export const oneStats = strict({ at, stats: queueStats }, 'OneStats')
