import { VERSION } from '../../version.ts'
import {
  DEAD_FILTER,
  EXTENT,
  ID_FILTER,
  JOB_FILTER,
  LENGTH,
  PAGE,
  type Parameter,
  PROCESS,
  QUEUE,
  sorts,
} from './parameters.ts'
import { SCHEMAS, type Schema } from './schemas.ts'

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: object
  readonly responses: Readonly<Record<string, object>>
}

/** As much of OpenAPI 3.1 as is used here. */
export interface OpenApi {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string }[]
  readonly paths: Readonly<Record<string, { readonly get?: Operation; readonly post?: Operation }>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly responses: Readonly<Record<string, object>>
    readonly securitySchemes: Readonly<Record<string, object>>
  }
  readonly security: readonly object[]
}

const ref = (name: keyof typeof SCHEMAS) => ({ $ref: `#/components/schemas/${name}` })
const json = (name: keyof typeof SCHEMAS, description: string) => ({
  description,
  content: { 'application/json': { schema: ref(name) } },
})
const PROBLEM = { $ref: '#/components/responses/Problem' }

function look(
  operationId: string,
  summary: string,
  schema: keyof typeof SCHEMAS,
  parameters: readonly Parameter[] = [],
): { get: Operation } {
  return {
    get: { operationId, summary, parameters, responses: { 200: json(schema, summary), default: PROBLEM } },
  }
}

function act(operationId: string, summary: string, body: keyof typeof SCHEMAS): { post: Operation } {
  const description =
    'A line for each step. The last one has the result or, if the action failed half-way, the error; without either, the answer was cut off.'
  return {
    post: {
      operationId,
      summary,
      description: 'Works in chunks, and stops if the client goes away. What is done stays done.',
      parameters: [QUEUE],
      requestBody: { required: true, content: { 'application/json': { schema: ref(body) } } },
      responses: {
        200: { description, content: { 'application/x-ndjson': { schema: ref('ProgressLine') } } },
        default: PROBLEM,
      },
    },
  }
}

function flip(operationId: string, summary: string): { post: Operation } {
  const responses = { 200: json('Paused', summary), default: PROBLEM }
  return { post: { operationId, summary, parameters: [QUEUE], responses } }
}

function steer(operationId: string, summary: string): { post: Operation } {
  const responses = { 200: json('Asked', summary), default: PROBLEM }
  return { post: { operationId, summary, parameters: [PROCESS], responses } }
}

const ID: Parameter = { name: 'id', in: 'query', required: true, schema: { type: 'string', minLength: 1 } }
const JOBS = [QUEUE, ...ID_FILTER, ...JOB_FILTER]
const DEAD = [QUEUE, ...ID_FILTER, ...DEAD_FILTER]

/** What the API does. */
export const OPENAPI = {
  openapi: '3.1.0',
  info: {
    title: 'pg-lockstep',
    version: VERSION,
    description:
      'Requests that change something need the token of `/session` in the header X-Lockstep-Token, with its cookie. Scripts that log in by a header, and send neither Origin nor cookies, need Content-Type application/json instead.',
  },
  servers: [{ url: '.' }],
  paths: {
    '/openapi.json': look('getDescription', 'This description', 'Description'),
    '/session': look(
      'getSession',
      'Who the visitor is, and the token for requests that change something',
      'Session',
    ),
    '/stats': look('getStats', 'Lengths and lag by queue, as Lowkiq has them: ids, and seconds', 'Stats'),
    '/queues': look('listQueues', 'The state of all queues', 'Queues'),
    '/queues/{queue}': look('getQueue', 'The state of a queue and its shards', 'Queue', [QUEUE]),
    '/queues/{queue}/tenants': look(
      'getTenants',
      'The 50 tenants of a queue for whom most waits',
      'Tenants',
      [QUEUE],
    ),
    '/queues/{queue}/minutes': look('getMinutes', 'Rounds by minute, of the last day', 'Minutes', [QUEUE]),
    '/queues/{queue}/jobs': look('findJobs', 'A page of jobs that wait or are in work', 'Jobs', [
      ...JOBS,
      ...PAGE,
      sorts('performIn', 'id', 'retryCount'),
      ...EXTENT,
    ]),
    '/queues/{queue}/jobs/count': look('countJobs', 'How many jobs match, up to 100,000', 'Count', JOBS),
    '/queues/{queue}/job': look('getJob', 'The entries of an id: in work, waiting, or both', 'Job', [
      QUEUE,
      ID,
      ...EXTENT,
    ]),
    '/queues/{queue}/dead': look('findDead', 'A page of dead payloads', 'Dead', [
      ...DEAD,
      ...PAGE,
      sorts('diedAt', 'id', 'score'),
      LENGTH,
    ]),
    '/queues/{queue}/dead/count': look(
      'countDead',
      'How many dead payloads match, up to 100,000',
      'Count',
      DEAD,
    ),
    '/processes': look('listProcesses', 'The worker processes', 'Processes'),
    '/queues/{queue}/jobs/perform-now': act('performNow', 'Makes waiting jobs due now', 'JobChoice'),
    '/queues/{queue}/jobs/delete': act('deleteJobs', 'Deletes waiting jobs, for good', 'JobChoice'),
    '/queues/{queue}/jobs/kill': act(
      'killJobs',
      'Moves the payloads of waiting jobs to the morgue',
      'JobChoice',
    ),
    '/queues/{queue}/dead/requeue': act(
      'requeueDead',
      'Moves dead payloads back to their jobs',
      'DeadChoice',
    ),
    '/queues/{queue}/dead/delete': act('deleteDead', 'Deletes dead payloads, for good', 'DeadChoice'),
    '/queues/{queue}/pause': flip('pauseQueue', 'Workers start no job of the queue any more'),
    '/queues/{queue}/resume': flip('resumeQueue', 'Workers go on with the queue'),
    '/processes/{process}/quiet': steer('quietProcess', 'Tells a worker process to take nothing new'),
    '/processes/{process}/stop': steer('stopProcess', 'Tells a worker process to stop'),
    '/queues/{queue}/reshard': act('reshardQueue', 'Changes the number of shards', 'Reshard'),
    '/queues/{queue}/delete': act(
      'deleteQueue',
      'Deletes an empty queue, or one with its jobs',
      'DeleteQueue',
    ),
  },
  components: {
    schemas: SCHEMAS,
    responses: {
      Problem: {
        description: 'What is wrong. 503 if the database can’t be reached, with Retry-After.',
        content: { 'application/problem+json': { schema: ref('Problem') } },
      },
    },
    securitySchemes: { basic: { type: 'http', scheme: 'basic' } },
  },
  security: [{}, { basic: [] }],
} as const satisfies OpenApi
