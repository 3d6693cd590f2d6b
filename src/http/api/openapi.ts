import { z } from 'zod'
import { VERSION } from '../../version.ts'
import type { Route } from './route.ts'
import { problem } from './schemas/problem.ts'

type Schemas = Record<string, unknown>

const INFO = {
  title: 'pg-lockstep',
  version: VERSION,
  description:
    'An ordered job queue on Postgres. Jobs that share an id are never given out side by side: they come in order, with everything that has piled up for the id. Requests carry `Authorization: Bearer` and a token, unless the server lets everybody in.',
}

const PATH_PARAMETERS: Readonly<Record<string, string>> = {
  queue:
    'The name of a queue, percent-encoded. Names of one or two dots, which no address can carry, get a tilde: `~.`, `~..`; those that begin with tildes before such dots get one more.',
  id: 'The id of a job, percent-encoded, with a tilde as in names of queues.',
}

const OWN_ROUTE = {
  get: {
    operationId: 'getDescription',
    summary: 'This description',
    security: [],
    responses: {
      200: { description: 'OpenAPI 3.1', content: { 'application/json': { schema: { type: 'object' } } } },
    },
  },
}

/** OpenAPI 3.1, from the schemas that requests are checked by. `base`: where the API is mounted. */
export function describe(routes: readonly Route[], base: string): object {
  const schemas: Schemas = {}
  const paths: Record<string, object> = { '/openapi.json': OWN_ROUTE }
  for (const route of routes)
    paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route, schemas) }
  const problemSchema = schemaOf(problem, 'output', schemas)
  return {
    openapi: '3.1.0',
    info: INFO,
    servers: [{ url: base === '' ? '/' : base }],
    security: [{ token: [] }, {}],
    paths,
    components: {
      schemas,
      responses: {
        Problem: {
          description: 'What is wrong (RFC 9457). 503 if the database can’t be reached, with Retry-After.',
          headers: {
            'Retry-After': {
              description: 'Seconds after which it may be sent again: with 409, 429 and 503.',
              schema: { type: 'integer', minimum: 0 },
            },
          },
          content: { 'application/problem+json': { schema: problemSchema } },
        },
      },
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}

/** Texts of descriptions. Making one takes many milliseconds, and anybody may ask: so the one that was asked for last is kept. */
export function describer(routes: readonly Route[]): (base: string) => string {
  let kept: { readonly base: string; readonly text: string } | undefined
  return (base) => {
    if (kept?.base !== base) kept = { base, text: JSON.stringify(describe(routes, base)) }
    return kept.text
  }
}

function operationOf(route: Route, schemas: Schemas): object {
  const {
    name,
    summary,
    description,
    body,
    answers,
    answerHeaders,
    unfinished,
    isStream,
    scope,
    mayBeEmpty = false,
  } = route
  const media = isStream ? 'application/x-ndjson' : 'application/json'
  return {
    operationId: name,
    summary,
    description: [description, `Scope: ${scope}.`].filter(Boolean).join(' '),
    parameters: parametersOf(route, schemas),
    ...(body && {
      requestBody: {
        required: !mayBeEmpty,
        content: { 'application/json': { schema: anyOf(body, 'input', schemas) } },
      },
    }),
    responses: {
      200: {
        description: summary,
        ...(answerHeaders && { headers: headersOf(answerHeaders) }),
        content: { [media]: { schema: anyOf(answers, 'output', schemas) } },
      },
      ...(unfinished && {
        202: {
          description: 'It is not over yet.',
          content: { [media]: { schema: schemaOf(unfinished, 'output', schemas) } },
        },
      }),
      default: { $ref: '#/components/responses/Problem' },
    },
  }
}

function headersOf(headers: Readonly<Record<string, string>>): object {
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return Object.fromEntries(described)
}

function parametersOf({ path, query, headers = {} }: Route, schemas: Schemas): object[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: PATH_PARAMETERS[name!],
    schema: { type: 'string' },
  }))
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: 'header',
    description,
    schema: { type: 'string' },
  }))
  const { properties = {} } = (query ? schemaOf(query, 'input', schemas) : {}) as { properties?: Schemas }
  const inQuery = Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = schema as { readonly description?: string }
    return { name, in: 'query', ...(description && { description }), schema: rest }
  })
  return [...inPath, ...inHeader, ...inQuery]
}

function anyOf(all: readonly z.ZodType[], io: 'input' | 'output', schemas: Schemas): object {
  const [first, ...more] = all.map((schema) => schemaOf(schema, io, schemas))
  return more.length === 0 ? first! : { anyOf: [first, ...more] }
}

/** Those with names go to the components, under these. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', schemas: Schemas): object {
  const text = JSON.stringify(z.toJSONSchema(schema, { io, unrepresentable: 'any' }))
  const { $schema: _, $defs = {}, ...own } = JSON.parse(text.replaceAll('#/$defs/', '#/components/schemas/'))
  Object.assign(schemas, $defs)
  return own
}
