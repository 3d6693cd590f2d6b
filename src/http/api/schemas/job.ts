import { z } from 'zod'
import type { NewJob } from '../../../index.ts'
import { MAX_LANE } from '../../../job.ts'
import { strict } from './strict.ts'
import { moment, object } from './values.ts'

/** A job to push, as SQL has it. The library's own checks come after it, which say what Postgres can hold. */
export const newJob = strict(
  {
    id: z
      .union([z.string(), z.number()], { error: 'is missing, or is neither text nor a number' })
      .meta({ description: 'Identifies the job: 1 to 1,024 bytes. A number becomes text.' }),
    payload: z.unknown().optional().meta({
      description: 'Any JSON, up to 8 MiB, in a body that the server takes: 4 MiB by default. Default "".',
    }),
    score: z.number().nullish().meta({
      description: 'Orders the payloads of an id, lowest first. Default: now, in ms since 1970.',
    }),
    perform_in: moment.nullish().meta({ description: 'The earliest time to start. Default: now.' }),
    expires_in: moment.nullish().meta({
      description: 'A time after which the payload is not handed over any more. Default: never.',
    }),
    lane: z.int().min(0).max(MAX_LANE).nullish().meta({ description: 'Class of service. Default 0.' }),
    tenant: z.string().nullish().meta({ description: 'For whom it is: up to 1,024 bytes. Default: nobody.' }),
    headers: object.nullish().meta({
      description: 'Goes with the payload, and is no part of its equality: an object, up to 16 KiB.',
    }),
  },
  'NewJob',
)

export const newJobs = strict({ jobs: z.array(newJob) }, 'NewJobs')

export const stored = strict(
  { stored: z.int().min(0).meta({ description: 'How many jobs were stored.' }) },
  'Stored',
)

/** `payload`: what is stored, if it isn't what JavaScript makes of it. */
export function jobOf(
  { perform_in, expires_in, ...job }: z.output<typeof newJob>,
  payload: unknown = job.payload,
): NewJob {
  return { ...job, payload, performIn: perform_in ?? undefined, expiresIn: expires_in ?? undefined } as NewJob
}
