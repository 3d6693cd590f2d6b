import { z } from 'zod'

/** RFC 9457. */
export const problem = z
  .object({
    type: z.literal('about:blank'),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string(),
    code: z
      .string()
      .regex(/^LOCKSTEP_/)
      .meta({ description: 'For programs.' }),
    field: z.string().optional().meta({ description: 'What is wrong: `jobs[3].score`.' }),
  })
  .meta({ id: 'Problem' })
