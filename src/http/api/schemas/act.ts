import { z } from 'zod'
import { MAX_SHARDS } from '../../../queue.ts'
import { problem } from './problem.ts'
import { strict } from './strict.ts'
import { count, deadKey, hasIdsForKeys, moment, NEEDS_IDS, storable, text } from './values.ts'

/** One without a bound would match everything: whoever sends it has probably read a variable that was not set. */
const between = <T extends z.ZodType>(value: T) =>
  strict({ from: value.optional(), to: value.optional() })
    .refine(({ from, to }) => from !== undefined || to !== undefined, {
      error: 'has neither from nor to: give one, or leave it out',
    })
    .meta({ description: 'With at least one bound.', minProperties: 1 })
const ids = z.array(storable)

const filter = strict(
  {
    ids: ids.optional(),
    id: between(storable.min(1)).optional(),
    died_at: between(moment).optional(),
    score: between(z.number()).optional(),
    keys: z.array(deadKey).optional().meta({ description: 'Of these `ids`.' }),
    tenant: storable.min(1).nullable().optional().meta({ description: 'Null: of none.' }),
  },
  'DeadFilter',
).refine(hasIdsForKeys, NEEDS_IDS)

const ONE = 'exactly one of ids, filter and all, since a forgotten filter must not match everything'

export const deadChoice = strict({
  ids: ids.optional().meta({ description: 'All dead payloads of these ids.' }),
  filter: filter.optional(),
  all: z.literal(true).optional().meta({ description: 'Everything in the morgue of the queue.' }),
})
  .refine((choice) => Object.keys(choice).length === 1, { error: `must have ${ONE}` })
  .refine((choice) => choice.filter === undefined || Object.keys(choice.filter).length > 0, {
    error: 'must not be empty: say all: true for everything',
    path: ['filter'],
  })
  .meta({ id: 'DeadChoice', description: `It has ${ONE}.` })

export const shardsRequest = strict({ shards: z.int().min(1).max(MAX_SHARDS) }, 'ShardsRequest')
export const nothing = strict({}, 'Nothing')
export const paused = strict({ queue: text, paused: z.boolean() }, 'Paused')

const progress = strict({ done: count, total: count }, 'Progress')

export const progressLine = z
  .union([progress, strict({ result: progress }), strict({ error: problem })])
  .meta({
    id: 'ProgressLine',
    description:
      'A line for each step. The last one has the result or, if the action failed half-way, the error; without either, the answer was cut off.',
  })
