import { z } from 'zod'
import { isPlain, show } from '../../../options.ts'
import { strict } from './strict.ts'
import { count, fence, lease, QUEUE_NAME, queueName, storable, text, time } from './values.ts'

/** Seconds. Proxies rarely let a request take longer. */
const LONGEST_WAIT = 300
const MOST_JOBS = 1_000
const [LEAST_WEIGHT, MOST_WEIGHT] = [0.001, 1_000]

const QUEUES =
  'must be the name of a queue, a list of names, or an object with a weight from 0.001 to 1000 for each name'

/** No record: a queue may be called `__proto__` (see `object`). */
const weights = z
  .unknown()
  .refine(isPlain, { error: QUEUES, abort: true })
  .refine((given) => Object.keys(given as object).length > 0, { error: 'must name at least one queue' })
  .superRefine((given, { addIssue }) => {
    for (const [name, weight] of Object.entries(given as object))
      if (!(typeof weight === 'number' && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT))
        addIssue({
          code: 'custom',
          path: [name],
          message: `must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${show(weight)}`,
        })
  })
  .meta({
    type: 'object',
    minProperties: 1,
    additionalProperties: { type: 'number', minimum: LEAST_WEIGHT, maximum: MOST_WEIGHT },
  }) as unknown as z.ZodType<Readonly<Record<string, number>>>

export const claimRequest = strict(
  {
    queues: z
      .union([queueName, z.array(queueName).min(1).max(MOST_JOBS), weights], {
        error: ({ input }) =>
          input === undefined
            ? 'is missing: name a queue, several in order, or an object of weights'
            : QUEUES,
      })
      .meta({
        description:
          'A queue; several in order, whose jobs come before those of the next; or weights, by which the order is drawn.',
      }),
    count: z.int().min(1).max(MOST_JOBS).default(1).meta({ description: 'Most jobs to claim.' }),
    lease,
    wait: z.number().min(0).max(LONGEST_WAIT).default(0).meta({
      description: 'Seconds to wait for a job if there is none.',
    }),
  },
  'ClaimRequest',
)

export const claimedJob = strict(
  {
    queue: text,
    id: text,
    fence: z.string().regex(/^\d+$/),
    tenant: text.nullable(),
    perform_in: time,
    retry_count: z.int().min(-1).meta({ description: '-1: never failed, 0: failed once.' }),
    crashes: count,
    error: text.nullable().meta({ description: 'Of the last failure since the last success.' }),
    payloads: z
      .array(
        strict({
          payload: z.unknown(),
          score: z.number(),
          headers: z.record(z.string(), z.unknown()).nullable(),
        }),
      )
      .meta({ description: 'All that has piled up for the id, in order.' }),
  },
  'ClaimedJob',
)

export const claimed = strict({ jobs: z.array(claimedJob) }, 'Claimed')

const id = storable.min(1)
const queue = id.meta({ description: QUEUE_NAME })

/** Proves a claim. */
export const reference = { queue, id, fence }
