import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect } from 'vitest'
import { describe } from '../../../src/http/api/openapi.ts'
import type { Route } from '../../../src/http/api/route.ts'
import { ROUTES } from '../../../src/http/api/routes/all.ts'
import { type Answer, linesOf } from '../../web/site.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
export const DESCRIPTION: any = JSON.parse(JSON.stringify(describe(ROUTES, '/v1')))

const ajv = new Ajv2020({ strict: false, allErrors: true })
// It exports the function as CommonJS does.
;(addFormats as unknown as (to: Ajv2020) => void)(ajv)
ajv.addSchema(DESCRIPTION, 'api')

const validators = new Map<string, ValidateFunction>()

export function validatorOf(...place: readonly string[]): ValidateFunction {
  const pointer = place.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')
  let validate = validators.get(pointer)
  if (!validate) {
    validate = ajv.compile({ $ref: `api#/${pointer}` })
    validators.set(pointer, validate)
  }
  return validate
}

/** Routes of which an answer was seen. */
export const seen = new Set<string>()

/** Fails unless an answer is as the description says. */
export function conforms(method: string, path: string, answer: Answer): void {
  const type = answer.headers.get('content-type')
  if (answer.status !== 200 && answer.status !== 202) {
    expect([answer.status, type]).toEqual([answer.status, 'application/problem+json'])
    expectValid(validatorOf('components', 'schemas', 'Problem'), answer.json)
    expect(answer.json.status).toBe(answer.status)
    return
  }
  const route = routeOf(method, path)
  if (!route) return
  seen.add(`${route.method} ${route.path}`)
  const media = route.isStream ? 'application/x-ndjson' : 'application/json'
  expect(type).toBe(media)
  const place = [
    'paths',
    route.path,
    route.method,
    'responses',
    String(answer.status),
    'content',
    media,
    'schema',
  ]
  for (const value of route.isStream ? linesOf(answer) : [answer.json])
    expectValid(validatorOf(...place), value)
}

function routeOf(method: string, path: string): Route | undefined {
  const [place] = path.split('?')
  return ROUTES.find(
    (route) =>
      route.method === method && new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(place!),
  )
}

function expectValid(validate: ValidateFunction, value: unknown): void {
  validate(value)
  expect(validate.errors ?? []).toEqual([])
}
