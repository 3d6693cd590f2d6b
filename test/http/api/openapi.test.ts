import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { describer } from '../../../src/http/api/openapi.ts'
import { ROUTES } from '../../../src/http/api/routes/all.ts'
import { lockstepApi } from '../../../src/http/index.ts'
import { DESCRIPTION, validatorOf } from './described.ts'
import { useGateways } from './gateway.ts'

const { env, open } = useGateways()

/** All places that a document leads to. */
function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, part]) =>
    name === '$ref' ? [part as string] : referencesIn(part),
  )
}

function at(pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .reduce<unknown>((value, part) => (value as Record<string, unknown> | undefined)?.[part], DESCRIPTION)
}

test('the description is served to everybody, for the place where the API is mounted', async () => {
  const { get } = await open({ access: 'tokens' })
  const answer = await get('/openapi.json')
  expect(answer.headers.get('content-type')).toBe('application/json')
  expect(answer.json).toEqual(DESCRIPTION)
  const api = lockstepApi(env.lockstep, { access: 'open', path: '/jobs/v1' })
  const { servers } = (await (
    await api.fetch(new Request('http://here/jobs/v1/openapi.json'))
  ).json()) as typeof DESCRIPTION
  expect(servers).toEqual([{ url: '/jobs/v1' }])
})

test('it is made once for a place, however often it is asked for', () => {
  let looks = 0
  const watched = ROUTES.map(
    (route) =>
      new Proxy(route, {
        get(target, name) {
          looks += 1
          return Reflect.get(target, name)
        },
      }),
  )
  const descriptionAt = describer(watched)
  const text = descriptionAt('/v1')
  const once = looks
  expect(descriptionAt('/v1')).toBe(text)
  expect(looks).toBe(once)
  expect(JSON.parse(descriptionAt('/jobs')).servers).toEqual([{ url: '/jobs' }])
  expect(looks).toBe(2 * once)
})

test('it has each route, and nothing else', () => {
  const described = Object.entries(DESCRIPTION.paths).flatMap(([path, item]) =>
    Object.keys(item as object).map((method) => `${method} ${path}`),
  )
  const served = ROUTES.map(({ method, path }) => `${method} ${path}`)
  expect(described.sort()).toEqual(['get /openapi.json', ...served].sort())
})

test('it is OpenAPI 3.1 by the schema of that', async () => {
  expect(await new Validator().validate(structuredClone(DESCRIPTION))).toEqual({ valid: true })
})

test('it is OpenAPI 3.1: names are used once, and whatever it refers to is there', () => {
  expect(DESCRIPTION.openapi).toBe('3.1.0')
  const references = referencesIn(DESCRIPTION)
  expect(references.length).toBeGreaterThan(20)
  expect(references.filter((pointer) => at(pointer) === undefined)).toEqual([])
  const operations = Object.values(DESCRIPTION.paths).flatMap((item) => Object.values(item as object))
  const names = operations.map(({ operationId }) => operationId)
  expect(new Set(names).size).toBe(names.length)
  for (const [path, item] of Object.entries(DESCRIPTION.paths))
    for (const { parameters = [] } of Object.values(
      item as Record<string, { parameters?: { name: string; in: string }[] }>,
    )) {
      const inPath = parameters.filter((one) => one.in === 'path').map((one) => `{${one.name}}`)
      expect(inPath).toEqual(path.match(/\{\w+\}/g) ?? [])
      expect(new Set(parameters.map((one) => one.name)).size).toBe(parameters.length)
    }
  for (const schema of Object.keys(DESCRIPTION.components.schemas))
    validatorOf('components', 'schemas', schema)
})

test('it names the headers of answers that programs look at', () => {
  const { responses } = DESCRIPTION.paths['/queues/{queue}/jobs'].post
  expect(Object.keys(responses[200].headers)).toEqual(['Idempotency-Replayed'])
  expect(Object.keys(DESCRIPTION.components.responses.Problem.headers)).toEqual(['Retry-After'])
})

test('what it says of a request is what is taken', () => {
  const valid = validatorOf('components', 'schemas', 'NewJob')
  expect(valid({ id: 'a', perform_in: 0, score: 1, lane: 0, tenant: null, headers: {}, payload: [1] })).toBe(
    true,
  )
  expect(valid({ id: 'a', performIn: 0 })).toBe(false)
  const claim = validatorOf('components', 'schemas', 'ClaimRequest')
  for (const queues of ['a', ['a', 'b'], { a: 1 }]) expect(claim({ queues })).toBe(true)
  expect(claim({ queues: [] })).toBe(false)
  const reference = validatorOf('components', 'schemas', 'ClaimReference')
  expect(reference({ queue: 'a', id: 'b', fence: '1' })).toBe(true)
  expect(reference({ queue: 'a', id: 'b', fence: 1 })).toBe(false)
})
