import type { Schema } from './schemas.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required?: boolean
  readonly description?: string
  readonly explode?: boolean
  readonly schema: Schema
}

const TIME: Schema = {
  type: 'string',
  examples: ['2011-10-11T13:45:40Z'],
  description: 'ISO 8601 with its zone, or ms since 1970.',
}
const TEXT: Schema = { type: 'string' }
const RETRY: Schema = { type: 'integer', minimum: -1, maximum: 2_147_483_647 }

const inQuery = (name: string, schema: Schema, description?: string): Parameter => ({
  name,
  in: 'query',
  schema,
  ...(description && { description }),
})

const range = (name: string, schema: Schema, description: string): Parameter[] => [
  inQuery(`${name}.from`, schema, `${description} at least this`),
  inQuery(`${name}.to`, schema, `${description} at most this`),
]

export const PROCESS: Parameter = {
  name: 'process',
  in: 'path',
  required: true,
  schema: { type: 'integer', minimum: 1 },
}
export const QUEUE: Parameter = {
  name: 'queue',
  in: 'path',
  required: true,
  description:
    'Its name, percent-encoded. Names of one or two dots, which no address can carry, get a tilde: `~.`, `~..`; those that begin with tildes before such dots get one more.',
  schema: TEXT,
}

const TENANT = inQuery('tenant', TEXT, 'Of this tenant; empty: of none')

export const ID_FILTER: readonly Parameter[] = [
  { ...inQuery('ids', { type: 'array', items: TEXT }, 'These ids; repeat it for several'), explode: true },
  ...range('id', TEXT, 'An id that is, bytewise,'),
  TENANT,
]

export const JOB_FILTER: readonly Parameter[] = [
  ...range('performIn', TIME, 'Due at'),
  ...range('retryCount', RETRY, 'A retry count of'),
  inQuery('state', { enum: ['waiting', 'working'] }),
]

export const DEAD_FILTER: readonly Parameter[] = [
  ...range('diedAt', TIME, 'Died at'),
  ...range('score', { type: 'number' }, 'A score of'),
  {
    ...inQuery(
      'keys',
      { type: 'array', items: TEXT },
      'Payloads with these keys, of these `ids`; repeat it for several',
    ),
    explode: true,
  },
]

export const PAGE: readonly Parameter[] = [
  inQuery('direction', { enum: ['asc', 'desc'], default: 'asc' }),
  inQuery('after', TEXT, 'The `next` of an earlier page with the same `by`'),
  inQuery('limit', { type: 'integer', minimum: 1, maximum: 1_000, default: 100 }),
]

export const LENGTH = inQuery(
  'length',
  { type: 'integer', minimum: 0, maximum: 12_582_912 },
  'The most characters of a payload. Default 1,000 in lists and 100,000 of one job',
)

export const EXTENT: readonly Parameter[] = [
  inQuery(
    'payloads',
    { type: 'integer', minimum: 0, maximum: 1_000 },
    'The most payloads of a job. Default 3 in lists and 100 of one job',
  ),
  LENGTH,
]

/** The first one is the default. */
export function sorts(...names: readonly string[]): Parameter {
  return inQuery('by', { enum: names, default: names[0] })
}
