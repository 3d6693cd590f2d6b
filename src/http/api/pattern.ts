import { ROUTES } from './routes/all.ts'

/** Where `lockstep serve` has the API. */
export const BASE = '/v1'

const PATTERNS = ['/openapi.json', ...new Set(ROUTES.map(({ path }) => path))].map((path) => ({
  pattern: `${BASE}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
  form: new RegExp(`^${BASE}${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
}))

/** The route that a path leads to, for metrics; undefined if there is none: anybody can think of any number of paths. */
export function patternOf(path: string): string | undefined {
  return PATTERNS.find(({ form }) => form.test(path))?.pattern
}
