import { z } from 'zod'
import { Problem } from '../../serving/problem.ts'
import { parsed } from './schemas/strict.ts'

/** How the values of a parameter are read: a list may be repeated. */
type Kind = 'list' | 'number' | 'text'

const kinds = new WeakMap<z.ZodType, ReadonlyMap<string, Kind>>()

/**
 * The parameters of a request.
 * @throws Problem 400 for an unknown one, one that is given twice, or a bad value
 */
export function queryOf<T>(url: string, schema: z.ZodType<T>): T {
  const found = kindsOf(schema)
  const params = new URL(url).searchParams
  const values = new Map<string, unknown>()
  for (const name of new Set(params.keys())) {
    const all = params.getAll(name)
    const kind = found.get(name)
    if (kind !== 'list' && all.length > 1) throw bad(`the query names ${name} twice`)
    values.set(name, kind === 'list' ? all : kind === 'number' ? numberIn(all[0]!) : all[0]!)
  }
  try {
    return parsed(schema, Object.fromEntries(values))
  } catch (error) {
    if (error instanceof Problem) throw bad(`the query: ${error.message}`, error.more)
    throw error
  }
}

function bad(detail: string, more: Readonly<Record<string, unknown>> = {}): Problem {
  return new Problem(400, 'LOCKSTEP_BAD_OPTION', detail, {}, more)
}

/** Other text stays text, which the schema refuses. */
function numberIn(text: string): unknown {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : text
}

interface Described {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, Described>>
}

/** As the description of the API has them. */
function kindsOf(schema: z.ZodType): ReadonlyMap<string, Kind> {
  let known = kinds.get(schema)
  if (!known) {
    const { properties = {} } = z.toJSONSchema(schema, { io: 'input' }) as Described
    known = new Map(Object.entries(properties).map(([name, { type }]) => [name, kindOf(type)]))
    kinds.set(schema, known)
  }
  return known
}

function kindOf(type: unknown): Kind {
  if (type === 'array') return 'list'
  return type === 'integer' || type === 'number' ? 'number' : 'text'
}
