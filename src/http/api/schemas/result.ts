import { z } from 'zod'
import { strict } from './strict.ts'
import { text, time } from './values.ts'

/** Seconds. */
const LONGEST_WAIT = 300

const seconds = z.number().min(0).max(LONGEST_WAIT)

export const enqueueQuery = strict({
  wait: seconds.optional().meta({
    description:
      'Seconds to wait for the result of the only job; 0: the answer names the round that will have it.',
  }),
})

export const resultQuery = strict({
  round: text.meta({ description: 'What the push has answered.' }),
  wait: seconds.default(0).meta({ description: 'Seconds to wait for the end.' }),
})

const outcome = {
  state: z.enum(['completed', 'dead', 'waiting', 'working', 'gone']).meta({
    description:
      'gone: no result is kept, since its time is over, none was given, or the job was deleted or has expired.',
  }),
  result: z.unknown().meta({ description: 'What the job has come to, if it is completed; else null.' }),
  error: z
    .string()
    .nullable()
    .meta({ description: 'Why it is dead; else the error of its last try, if any.' }),
  retry_count: z.int().nullable(),
  ended_at: time.nullable(),
}

export const result = strict(outcome, 'Result')

export const storedWithResult = strict(
  {
    stored: z.literal(1),
    id: text,
    round: text.meta({ description: 'Names the result, with the queue and the id.' }),
    ...outcome,
  },
  'StoredWithResult',
)
