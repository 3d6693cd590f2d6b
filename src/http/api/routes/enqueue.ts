import { createHash } from 'node:crypto'
import { JobError, type NewJob, type Queue } from '../../../index.ts'
import { elementsOf, hasNumbersToKeep, memberIn } from '../../../json-text.ts'
import { Problem } from '../../../serving/problem.ts'
import { type Body, objectOf, written } from '../body.ts'
import { asInJson, inJson, refused } from '../problems.ts'
import { type Call, json, route, type Tools } from '../route.ts'
import { jobOf, newJob, newJobs, stored } from '../schemas/job.ts'
import { enqueueQuery, storedWithResult } from '../schemas/result.ts'
import { parsed } from '../schemas/strict.ts'
import { toMs } from '../schemas/values.ts'
import { awaited, resultJson } from './result.ts'

const KEY = 'idempotency-key'
const MAX_KEY = 255

export const ENQUEUE = route({
  method: 'post',
  path: '/queues/{queue}/jobs',
  scope: 'produce',
  name: 'enqueue',
  summary: 'Pushes a job, or many: all or none',
  description:
    'Payloads keep all digits of their numbers. A queue that does not exist is created. With `wait`, a single job is answered with what it has come to, or with status 202 if it is not over by then.',
  body: [newJob, newJobs],
  headers: {
    'Idempotency-Key':
      'The same key with the same body within 24 hours gives the same answer, and pushes nothing again.',
  },
  answerHeaders: { 'Idempotency-Replayed': '`true`: the answer to an earlier push with the same key.' },
  query: enqueueQuery,
  answers: [stored, storedWithResult],
  unfinished: storedWithResult,
  async answer(call, tools) {
    const { body, queue, grant, query } = call
    const key = keyOf(call)
    const jobs = jobsIn(body, tools)
    const into = tools.queue(queue)
    if (query.wait !== undefined) return answerWithResult(call, into, jobs, toMs(query.wait), tools)
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

/** @throws Problem for several jobs, and with a key: a push that is repeated could not tell its round */
async function answerWithResult(
  call: Call,
  into: Queue,
  [job, ...others]: readonly NewJob[],
  wait: number,
  tools: Tools,
): Promise<Response> {
  const { body, queue } = call
  if (!job || others.length > 0 || Object.hasOwn(body.value as object, 'jobs'))
    throw new Problem(422, 'LOCKSTEP_BAD_OPTION', 'wait takes a single job, without `jobs`')
  if (keyOf(call) !== undefined)
    throw new Problem(
      400,
      'LOCKSTEP_BAD_OPTION',
      'wait takes no Idempotency-Key: equal payloads of an id are one while they wait',
    )
  const { id, round } = await tools.enqueueForResultInTime(into, job).catch(asInBody(body))
  const row = await awaited(call, tools, { queue, id, round }, wait)
  return resultJson(row, { stored: 1, id, round })
}

function answerOf(stored: number, isRepeated = false): Response {
  return json(JSON.stringify({ stored }), isRepeated ? { 'idempotency-replayed': 'true' } : {})
}

/** Errors name a job by its place in a list, which a body with one job doesn't have. */
function asInBody({ value }: Body): (error: unknown) => never {
  return (error) => {
    if (error instanceof JobError && !Object.hasOwn(value as object, 'jobs'))
      throw refused(asInJson(error.field), inJson(error.problem), error.code)
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
    return [jobOf(job, written(text, 'payload', job.payload))]
  }
  if (Array.isArray(given.jobs) && given.jobs.length > maxJobs)
    throw new Problem(413, 'LOCKSTEP_TOO_LARGE', `jobs has more than ${maxJobs} elements: push them in parts`)
  const { jobs } = parsed(newJobs, given)
  if (!hasNumbersToKeep(text)) return jobs.map((job) => jobOf(job))
  const texts = elementsOf(memberIn(text, 'jobs'))
  return jobs.map((job, index) => jobOf(job, written(texts[index]!, 'payload', job.payload)))
}
