import { z } from 'zod'
import { hintFor, show } from '../../../options.ts'
import { refused } from '../problems.ts'

/** As much of a finding of zod's as is told. */
interface Finding {
  readonly code?: string
  readonly input?: unknown
  readonly expected?: string
  readonly origin?: string
  readonly minimum?: number | bigint
  readonly maximum?: number | bigint
  readonly values?: readonly unknown[]
  readonly keys?: readonly string[]
}

/** An object without any other members. The name is that of its schema in the description. */
export function strict<Shape extends z.ZodRawShape>(shape: Shape, name?: string) {
  const known = Object.keys(shape)
  const schema = z.strictObject(shape, {
    error: ({ code, keys }: Finding) =>
      code === 'unrecognized_keys' ? `is unknown, ${hintFor(keys![0]!, known)}` : undefined,
  })
  return name === undefined ? schema : schema.meta({ id: name })
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'text',
}

/** In the words of the project: what follows the field's name. */
function described({ code, input, expected, origin, minimum, maximum, values }: Finding): string {
  if (code === 'invalid_type' && input === undefined) return 'is missing'
  if (code === 'invalid_type') return `must be ${EXPECTED[expected!] ?? expected}, not ${show(input)}`
  if (code === 'invalid_value') return `must be ${values!.map(show).join(' or ')}, not ${show(input)}`
  const [least, most] = [minimum !== undefined, maximum !== undefined]
  if (origin === 'string' && least) return 'must not be empty'
  if (origin === 'string' && most) return `must have at most ${maximum} characters`
  if (origin === 'array' && least) return `must have at least ${minimum} elements`
  if (origin === 'array' && most) return `must have at most ${maximum} elements`
  if (least) return `must be at least ${minimum}, not ${show(input)}`
  if (most) return `must be at most ${maximum}, not ${show(input)}`
  return 'is not as it should be'
}

/** Where a value is, as in `jobs[3].score`. */
function placeOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((place, part) => {
    if (typeof part === 'number') return `${place}[${part}]`
    const name = String(part)
    if (!/^[\w.]+$/.test(name)) return `${place}[${JSON.stringify(name)}]`
    return place === '' ? name : `${place}.${name}`
  }, '')
}

/** @throws Problem 422 that names the first value that is wrong */
export function parsed<T>(schema: z.ZodType<T>, value: unknown, at: readonly PropertyKey[] = []): T {
  const result = schema.safeParse(value, { error: (finding) => described(finding as Finding) })
  if (result.success) return result.data
  const [first] = result.error.issues
  const { path, message, code } = first!
  const inner = code === 'unrecognized_keys' ? [...path, (first as { keys: string[] }).keys[0]!] : path
  throw refused(placeOf([...at, ...inner]), message)
}
