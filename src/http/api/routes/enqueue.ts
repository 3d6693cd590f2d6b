import { createHash } from 'node:crypto'
import { JobError, type NewJob } from '../../../index.ts'
import { elementsOf, hasNumbersToKeep, JsonText, memberIn } from '../../../json-text.ts'
import { Problem } from '../../../serving/problem.ts'
import { type Body, objectOf } from '../body.ts'
import { asInJson, refused } from '../problems.ts'
import { type Call, json, route, type Tools } from '../route.ts'
import { jobOf, newJob, newJobs, stored } from '../schemas/job.ts'
import { parsed } from '../schemas/strict.ts'

const KEY = 'idempotency-key'
const MAX_KEY = 255

export const ENQUEUE = route({
  method: 'post',
  path: '/queues/{queue}/jobs',
  scope: 'produce',
  name: 'enqueue',
  summary: 'Pushes a job, or many: all or none',
  description: 'Payloads keep all digits of their numbers. A queue that does not exist is created.',
  body: [newJob, newJobs],
  headers: {
    'Idempotency-Key':
      'The same key with the same body within 24 hours gives the same answer, and pushes nothing again.',
  },
  answers: [stored],
  async answer(call, tools) {
    const { body, queue, grant } = call
    const key = keyOf(call)
    const jobs = jobsIn(body, tools)
    const into = tools.queue(queue)
    if (key === undefined) return answerOf(await tools.enqueueInTime(into, jobs).catch(asInBody(body)))
    const digest = createHash('sha256')
      .update(`${JSON.stringify(queue)}\n`)
      .update(body.bytes)
      .digest()
    const once = { holder: grant.holder, key, digest }
    const { stored, isRepeated } = await tools.enqueueOnce(into, jobs, once).catch(asInBody(body))
    return answerOf(stored, isRepeated)
  },
})

function answerOf(stored: number, isRepeated = false): Response {
  return json(JSON.stringify({ stored }), isRepeated ? { 'idempotency-replayed': 'true' } : {})
}

/** Errors name a job by its place in a list, which a body with one job doesn't have. */
function asInBody({ value }: Body): (error: unknown) => never {
  return (error) => {
    if (error instanceof JobError && !Object.hasOwn(value as object, 'jobs'))
      throw refused(asInJson(error.field), error.problem, error.code)
    throw error
  }
}

function keyOf({ request }: Call): string | undefined {
  const key = request.headers.get(KEY)
  if (key === null) return undefined
  if (/^[\x21-\x7e]+$/.test(key) && key.length <= MAX_KEY) return key
  throw new Problem(
    400,
    'LOCKSTEP_BAD_OPTION',
    `Idempotency-Key must be 1 to ${MAX_KEY} visible characters of ASCII`,
  )
}

/** @throws Problem */
function jobsIn({ value, text }: Body, { maxJobs }: Tools): NewJob[] {
  const given = objectOf(value)
  if (!Object.hasOwn(given, 'jobs')) {
    const job = parsed(newJob, given)
    return [jobOf(job, written(text, job.payload))]
  }
  if (Array.isArray(given.jobs) && given.jobs.length > maxJobs)
    throw new Problem(413, 'LOCKSTEP_TOO_LARGE', `jobs has more than ${maxJobs} elements: push them in parts`)
  const { jobs } = parsed(newJobs, given)
  if (!hasNumbersToKeep(text)) return jobs.map((job) => jobOf(job))
  const texts = elementsOf(memberIn(text, 'jobs'))
  return jobs.map((job, index) => jobOf(job, written(texts[index]!, job.payload)))
}

/** The payload, with digits that JavaScript would change. */
function written(job: string, payload: unknown): unknown {
  if (payload === undefined || !hasNumbersToKeep(job)) return payload
  const text = memberIn(job, 'payload')
  return hasNumbersToKeep(text) ? new JsonText(text) : payload
}
