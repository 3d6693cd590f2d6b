import { z } from 'zod'
import { LONGEST_KEPT } from '../../../queue.ts'
import { reference } from './claim.ts'
import { problem } from './problem.ts'
import { strict } from './strict.ts'
import { lease } from './values.ts'

/** Most claims of a call. */
const MOST_CLAIMS = 1_000
/** Seconds. */
const CENTURY = 100 * 365 * 24 * 3600

export const plain = strict(reference, 'ClaimReference')

export const completed = strict(
  {
    ...reference,
    result: z.unknown().optional().meta({
      description:
        'What the job has come to, for whoever waits for it: any JSON up to 1 MiB. Default: none is kept.',
    }),
    keep_result: z.int().min(1).max(LONGEST_KEPT).nullish().meta({
      description:
        'Seconds for which the result is kept. Default: what the definition of the queue says, or 3,600.',
    }),
  },
  'CompletedClaim',
)

export const failed = strict(
  {
    ...reference,
    error: z.string().meta({ description: 'Why, for people: up to 8,000 characters are kept.' }),
    retry_in: z.number().min(0).max(CENTURY).nullish().meta({
      description:
        'Seconds until the next try, if one follows. Default: what the definition of the queue says.',
    }),
  },
  'FailedClaim',
)

export const extended = strict({ ...reference, lease }, 'ExtendedClaim')

export const listOf = <Claim extends z.ZodType>(claim: Claim, name: string) =>
  strict({ claims: z.array(claim).min(1).max(MOST_CLAIMS) }, name)

const HELD = 'Whether the claim was still held. If not, nothing has changed.'

export const settled = strict({ held: z.boolean().meta({ description: HELD }) }, 'Settled')

export const allSettled = strict(
  {
    results: z
      .array(
        z.union([
          settled,
          strict({
            held: z.null().meta({ description: 'Unknown: the claim may stand.' }),
            problem,
          }),
        ]),
      )
      .meta({ description: 'One for each claim, in their order.' }),
  },
  'AllSettled',
)
